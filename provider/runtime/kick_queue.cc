// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/kick_queue.h"

#include <algorithm>
#include <cerrno>

namespace uroce::runtime {
namespace {

constexpr size_t kUsualDepth = 256;

uint32_t kind_of(engine::Event::Kind kind) {
  switch (kind) {
    case engine::Event::Kind::completion: return UROCE_KICK_COMPLETION;
    case engine::Event::Kind::async_cq: return UROCE_KICK_CQ_EVENT;
    case engine::Event::Kind::async_qp: return UROCE_KICK_QP_EVENT;
    case engine::Event::Kind::async_srq: return UROCE_KICK_SRQ_EVENT;
    case engine::Event::Kind::qp_state: break;  // for the slot page, not for the program
  }
  return 0;
}

}  // namespace

KickQueue::KickQueue(std::function<int(const uroce_kick&)> send) : send_(std::move(send)) {
  queue_.reserve(kUsualDepth);
  batch_.reserve(kUsualDepth);
}

void KickQueue::push(const uroce_kick& kick) {
  const std::lock_guard lock(queue_lock_);
  queue_.push_back(kick);
  waiting_.fetch_add(1, std::memory_order_release);
}

void KickQueue::push(const engine::Event& event) {
  push(uroce_kick{kind_of(event.kind), event.id, event.async, 0, event.user_handle});
}

void KickQueue::push_device_fatal() {
  push(uroce_kick{UROCE_KICK_DEVICE_FATAL, 0, 8 /* IBV_EVENT_DEVICE_FATAL */, 0, 0});
}

bool KickQueue::flush() {
  if (empty()) return false;
  // Somebody else is sending: what we pushed is in the queue it will look at again.
  std::unique_lock sending(sending_, std::try_to_lock);
  if (!sending.owns_lock()) return true;
  for (;;) {
    {
      const std::lock_guard lock(queue_lock_);
      batch_.insert(batch_.end(), queue_.begin(), queue_.end());
      queue_.clear();
    }
    const size_t before = batch_.size();
    std::erase_if(batch_, [this](const uroce_kick& kick) { return send_(kick) != EAGAIN; });
    waiting_.fetch_sub(static_cast<uint32_t>(before - batch_.size()), std::memory_order_acq_rel);
    const std::lock_guard lock(queue_lock_);
    if (queue_.empty()) return !batch_.empty();
  }
}

void KickQueue::forget(uint32_t kind, uint32_t id) {
  const std::lock_guard sending(sending_);
  const std::lock_guard lock(queue_lock_);
  const auto is_it = [&](const uroce_kick& kick) { return kick.kind == kind && kick.id == id; };
  const size_t erased = std::erase_if(queue_, is_it) + std::erase_if(batch_, is_it);
  waiting_.fetch_sub(static_cast<uint32_t>(erased), std::memory_order_acq_rel);
}

}  // namespace uroce::runtime
