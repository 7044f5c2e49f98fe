// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/sim/flow.h"

#include <array>
#include <cstring>

namespace uroce::sim {

using engine::Completion;
using engine::SgEntry;
using engine::WcOpcode;
using engine::WcStatus;
using engine::WrOpcode;

// ---- receive buffers ------------------------------------------------------------------------------

ReceivePool::ReceivePool(test::Host& host, test::QueuePair* qp, engine::SharedReceiveQueue* srq,
                         uint32_t buffers, uint32_t bytes)
    : host_(host), qp_(qp), srq_(srq), buffers_(buffers), bytes_(bytes), stride_(bytes + 2 * kGuard) {
  region_ = host.region(buffers * stride_);
  for (uint32_t i = 0; i < buffers; ++i) free_.push_back(i);
}

void ReceivePool::refill(Random& random, double probability) {
  while (!free_.empty() && random.chance(probability)) {
    const uint64_t id = free_.front();
    // In two pieces, so that packets end in the middle of a scatter entry.
    const auto cut = static_cast<uint32_t>(random.below(bytes_ + 1));
    const uint64_t offset = id * stride_ + kGuard;
    std::vector<SgEntry> sges{region_.sge(offset, cut), region_.sge(offset + cut, bytes_ - cut)};
    const int error = srq_ != nullptr ? host_.receive(srq_, id, sges) : host_.receive(qp_, id, sges);
    if (error != 0) return;
    free_.pop_front();
  }
}

bool ReceivePool::guards_are_whole() const {
  for (uint32_t i = 0; i < buffers_; ++i) {
    const uint64_t va = region_.va + i * stride_;
    if (!host_.memory.is_zero(va, kGuard) || !host_.memory.is_zero(va + kGuard + bytes_, kGuard))
      return false;
  }
  return true;
}

// ---- the sending program --------------------------------------------------------------------------

Flow::Flow(test::Host& from, test::QueuePair* from_qp, test::Host& to, test::QueuePair* to_qp,
           ReceivePool& pool, const test::Region& shared, const FlowOptions& options, uint64_t seed)
    : from_(from),
      to_(to),
      from_qp_(from_qp),
      to_qp_(to_qp),
      pool_(pool),
      shared_(shared),
      options_(options),
      seed_(seed << 32),
      stride_((options.max_bytes + 2 * kGuard + 7) / 8 * 8) {
  local_ = from.region(options.depth * stride_);
  target_ = to.region(options.depth * stride_);
  source_ = to.region(options.max_bytes * 2);
  words_ = to.region(24);
  to.memory.fill(source_.va, source_.length, seed_ + 77);
}

bool Flow::may_post() const {
  if (posted_ == options_.operations || open_.size() >= options_.depth) return false;
  // The other program may still have to look at what the slot's last operation wrote.
  return arriving_.empty() || posted_ - arriving_.front().number < options_.depth;
}

void Flow::plan_atomic(Random& random, Operation& op, engine::SendRequest& request) {
  op.length = 8;
  op.shared = random.chance(0.3);
  request.rkey = op.shared ? shared_.key : words_.key;
  request.remote_va = op.shared ? shared_.va : words_.va + 8;
  if (op.shared || random.chance(0.5)) {
    op.opcode = WrOpcode::fetch_add;
    request.swap_or_add = op.shared ? 1 : random.next();
    op.expected = counter_;
    if (!op.shared) counter_ += request.swap_or_add;
    return;
  }
  op.opcode = WrOpcode::compare_swap;
  const bool hits = random.chance(0.7);
  request.compare = hits ? counter_ : counter_ + 1;
  request.swap_or_add = random.next();
  op.expected = counter_;
  if (hits) counter_ = request.swap_or_add;
}

void Flow::post_some(Random& random) {
  static constexpr std::array<WrOpcode, 10> kMix = {
      WrOpcode::send,  WrOpcode::send, WrOpcode::send_imm, WrOpcode::write,     WrOpcode::write,
      WrOpcode::write, WrOpcode::read, WrOpcode::read,     WrOpcode::write_imm, WrOpcode::fetch_add};
  while (wrong_.empty() && may_post() && !random.chance(0.2)) {
    Operation op;
    op.number = posted_;
    op.opcode = kMix[random.below(kMix.size())];
    const uint64_t size_class = random.below(10);
    op.length = static_cast<uint32_t>(random.between(0, size_class < 4   ? 64
                                                        : size_class < 8 ? std::min(options_.max_bytes, 4096u)
                                                                         : options_.max_bytes));
    op.signaled =
        posted_ + 1 == options_.operations || posted_ % (options_.depth / 2) == 0 || random.chance(0.5);
    op.immediate = static_cast<uint32_t>(random.next());
    engine::SendRequest request;
    request.remote_va = slice(target_, op.number);
    request.rkey = target_.key;
    if (op.opcode == WrOpcode::fetch_add) plan_atomic(random, op, request);
    if (op.opcode == WrOpcode::read) {
      op.source_offset = random.below(options_.max_bytes);
      request.remote_va = source_.va + op.source_offset;
      request.rkey = source_.key;
    }
    const uint64_t local = slice(local_, op.number);
    const bool sends_data = op.opcode != WrOpcode::read && op.opcode != WrOpcode::fetch_add &&
                            op.opcode != WrOpcode::compare_swap;
    if (sends_data) from_.memory.fill(local, op.length, pattern(op.number));
    const auto cut = static_cast<uint32_t>(random.below(op.length + 1));
    const std::array<SgEntry, 2> sges = {SgEntry{local, cut, local_.key},
                                         SgEntry{local + cut, op.length - cut, local_.key}};
    request.wr_id = op.number;
    request.opcode = op.opcode;
    request.sges = sges;
    request.imm_be = op.immediate;
    request.flags.signaled = op.signaled;
    request.flags.solicited = random.chance(0.3);
    request.flags.fence = random.chance(0.05);
    const std::array<std::span<const std::byte>, 1> inline_parts = {
        std::span<const std::byte>(from_.memory.at(local), op.length)};
    if (sends_data && op.length <= 128 && random.chance(0.5)) {
      request.flags.inline_data = true;
      request.inline_parts = inline_parts;
    }
    if (from_.post(from_qp_, request) != 0) return fail("post was refused", op);
    ++posted_;
    open_.push_back(op);
    const bool shows = sends_data && op.opcode != WrOpcode::write;
    if (shows) arriving_.push_back(op);
  }
}

void Flow::on_sent(const Completion& completion) {
  if (!wrong_.empty()) return;
  if (completion.status != WcStatus::success) {
    wrong_ = "request " + std::to_string(completion.wr_id) + " ended with status " +
             std::to_string(static_cast<int>(completion.status)) + ", vendor error " +
             std::to_string(completion.vendor_error);
    return;
  }
  while (!open_.empty() && open_.front().number <= completion.wr_id) {
    const Operation op = open_.front();
    open_.pop_front();
    if (op.signaled != (op.number == completion.wr_id)) return fail("completions out of order", op);
    finish(op);
    ++finished_;
    if (op.number == completion.wr_id) {
      const bool atomic = op.opcode == WrOpcode::fetch_add || op.opcode == WrOpcode::compare_swap;
      if ((op.opcode == WrOpcode::read || atomic) && completion.byte_len != op.length)
        return fail("wrong byte count", op);
      return;
    }
  }
  wrong_ = "a completion that nothing was posted for: " + std::to_string(completion.wr_id);
}

void Flow::finish(const Operation& op) {
  const uint64_t local = slice(local_, op.number);
  switch (op.opcode) {
    case WrOpcode::write:
    case WrOpcode::write_imm:
      if (!to_.memory.holds(slice(target_, op.number), op.length, pattern(op.number)))
        fail("WRITE: wrong bytes", op);
      break;
    case WrOpcode::read:
      if (std::memcmp(from_.memory.at(local), to_.memory.at(source_.va + op.source_offset), op.length) != 0)
        fail("READ: wrong bytes", op);
      break;
    case WrOpcode::fetch_add:
    case WrOpcode::compare_swap:
      if (op.shared) {
        shared_values_.push_back(from_.memory.word(local));
      } else if (from_.memory.word(local) != op.expected) {
        fail("atomic: wrong value", op);
      }
      break;
    default: break;
  }
}

// ---- the receiving program ------------------------------------------------------------------------

void Flow::on_received(const Completion& completion) {
  if (!wrong_.empty()) return;
  if (arriving_.empty()) {
    wrong_ = "received more than was sent";
    return;
  }
  const Operation op = arriving_.front();
  arriving_.pop_front();
  if (completion.status != WcStatus::success) return fail("receive failed", op);
  const bool write = op.opcode == WrOpcode::write_imm;
  if (completion.opcode != (write ? WcOpcode::recv_rdma_with_imm : WcOpcode::recv))
    return fail("receive: opcode", op);
  if (completion.byte_len != op.length) return fail("receive: byte count", op);
  const bool immediate = op.opcode != WrOpcode::send;
  if (immediate != ((completion.flags & Completion::kWithImm) != 0)) return fail("receive: flags", op);
  if (immediate && completion.imm_or_rkey != op.immediate) return fail("receive: immediate", op);
  const uint64_t va = write ? slice(target_, op.number) : pool_.va_of(completion.wr_id);
  if (!to_.memory.holds(va, op.length, pattern(op.number))) return fail("receive: wrong bytes", op);
  pool_.give_back(completion.wr_id);
}

void Flow::check_untouched() {
  if (!wrong_.empty() || !done()) return;
  for (const test::Region* region : {&local_, &target_}) {
    test::Host& host = region == &local_ ? from_ : to_;
    for (uint32_t i = 0; i < options_.depth; ++i) {
      const uint64_t va = region->va + i * stride_;
      if (!host.memory.is_zero(va, kGuard) || !host.memory.is_zero(va + kGuard + options_.max_bytes, kGuard))
        wrong_ = "bytes beside a buffer were written";
    }
  }
  if (to_.memory.word(words_.va) != 0 || to_.memory.word(words_.va + 16) != 0)
    wrong_ = "a word beside the atomic's was written";
  if (to_.memory.word(words_.va + 8) != counter_) wrong_ = "the atomic's word is wrong at the end";
  if (!to_.memory.holds(source_.va, source_.length, seed_ + 77)) wrong_ = "the READ's source was written";
  if (!pool_.guards_are_whole()) wrong_ = "bytes beside a receive buffer were written";
}

void Flow::fail(const std::string& what, const Operation& op) {
  if (!wrong_.empty()) return;
  wrong_ = what + " (request " + std::to_string(op.number) + ", opcode " +
           std::to_string(static_cast<int>(op.opcode)) + ", " + std::to_string(op.length) + " bytes)";
}

std::string Flow::state() const {
  return "finished " + std::to_string(finished_) + " of " + std::to_string(options_.operations) + ", open " +
         std::to_string(open_.size()) + ", arriving " + std::to_string(arriving_.size()) + "\n  " +
         from_.engine.snapshot(from_qp_) + "\n  " + to_.engine.snapshot(to_qp_);
}

}  // namespace uroce::sim
