// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/wr_batch.h"

#include <cerrno>
#include <new>

#include "provider/verbs/work_opcode.h"

namespace uroce::verbs {

void WrBatch::start() {
  error_ = 0;
  entries_.clear();
  sges_.clear();
  bytes_.clear();
}

engine::SendRequest& WrBatch::begin(engine::WrOpcode opcode, uint64_t wr_id, unsigned flags) noexcept {
  if (entries_.size() >= cap_.max_send_wr) refuse(ENOMEM);
  if (error_ == 0) {
    try {
      entries_.emplace_back();
    } catch (const std::bad_alloc&) {
      refuse(ENOMEM);
    }
  }
  engine::SendRequest& request = current();
  request = {};
  request.opcode = opcode;
  request.wr_id = wr_id;
  request.flags = engine_flags(flags);
  request.flags.inline_data = false;  // said by the setter that is used
  return request;
}

engine::SendRequest& WrBatch::current() {
  return error_ != 0 || entries_.empty() ? scratch_.request : entries_.back().request;
}

void WrBatch::set_list(const ibv_sge* list, size_t count) noexcept {
  if (count > cap_.max_send_sge) refuse(EINVAL);
  if (error_ != 0 || entries_.empty()) return;
  try {
    entries_.back().first_sge = sges_.size();
    entries_.back().sge_count = count;
    for (size_t i = 0; i < count; ++i) sges_.push_back({list[i].addr, list[i].length, list[i].lkey});
  } catch (const std::bad_alloc&) {
    refuse(ENOMEM);
  }
}

void WrBatch::begin_inline() noexcept {
  if (error_ != 0 || entries_.empty()) return;
  entries_.back().request.flags.inline_data = true;
  entries_.back().first_byte = bytes_.size();
  entries_.back().byte_count = 0;
}

void WrBatch::add_inline(const void* bytes, size_t count) noexcept {
  if (error_ != 0 || entries_.empty()) return;
  Entry& entry = entries_.back();
  if (count > cap_.max_inline_data || entry.byte_count + count > cap_.max_inline_data) {
    refuse(EINVAL);
    return;
  }
  try {
    const auto* const first = static_cast<const std::byte*>(bytes);
    bytes_.insert(bytes_.end(), first, first + count);
    entry.byte_count += count;
  } catch (const std::bad_alloc&) {
    refuse(ENOMEM);
  }
}

void WrBatch::refuse(int error) {
  if (error_ == 0) error_ = error;
}

// Only now, when the vectors grow no more, may spans point into them.
void WrBatch::resolve(Entry& entry, std::span<const std::byte>& part) const {
  if (entry.request.flags.inline_data) {
    part = {bytes_.data() + entry.first_byte, entry.byte_count};
    entry.request.inline_parts = {&part, 1};
  } else {
    entry.request.sges = {sges_.data() + entry.first_sge, entry.sge_count};
  }
}

int WrBatch::submit(engine::QueuePair& queue) noexcept {
  std::span<const std::byte> part;
  for (size_t i = 0; i < entries_.size() && error_ == 0; ++i) {
    resolve(entries_[i], part);
    refuse(queue.check_send(entries_[i].request, static_cast<uint32_t>(i)));
  }
  for (size_t i = 0; i < entries_.size() && error_ == 0; ++i) {
    resolve(entries_[i], part);
    error_ = queue.post_send(entries_[i].request);
  }
  return error_;
}

}  // namespace uroce::verbs
