// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/lane.h"

#include <pthread.h>
#include <sched.h>

#include "provider/runtime/clock.h"
#include "provider/runtime/fault_copy.h"

namespace uroce::runtime {
namespace {

// One batch is what a 64 KiB segmented send and some small packets need; it stays in the L2 cache.
constexpr size_t kBatchBytes = 96 << 10;
// A pass is bounded, so that a polling thread gets back to its program under any load.
constexpr int kReceiveCallsPerPass = 8;
constexpr int kBatchesPerDrain = 16;
constexpr size_t kStreamPackets = 8;
constexpr int64_t kHoldNs = 20'000;
constexpr int64_t kLeastHoldNs =
    3'000;  // the poll that finds the message may have been beaten to it by the other thread
// How often the fault handlers are looked after.
constexpr uint32_t kPassesPerHandlerCheck = 4096;
// A full socket buffer is tried again after this.
constexpr int64_t kRetrySendNs = 200'000;

thread_local bool faults_unblocked = false;

}  // namespace

Lane::Lane(const engine::EngineConfig& config, std::unique_ptr<ProgramMemory> memory,
           std::unique_ptr<transport::Transport> transport, DevicePageReader page, KickQueue& kicks)
    : memory_(std::move(memory)),
      transport_(std::move(transport)),
      page_(page),
      kicks_(kicks),
      engine_(config, *memory_),
      storage_(kBatchBytes),
      batch_(storage_) {
  read_clock();
}

Lane::~Lane() = default;

bool Lane::try_enter() {
  if (held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_acquire)) return false;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved_cancel_state_);
  if (!faults_unblocked) {
    unblock_faults_of_this_thread();
    faults_unblocked = true;
  }
  return true;
}

void Lane::enter() {
  while (!try_enter()) sched_yield();
}

void Lane::leave() {
  for (;;) {
    publish_deadline();
    const int cancel_state = saved_cancel_state_;
    held_.store(false, std::memory_order_release);
    // Somebody may have posted after our drain and found the lane held: that work is ours. The fence orders
    // the release before the look, as the poster's ring is ordered before its try.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!engine_.has_rings() || !try_enter()) {
      pthread_setcancelstate(cancel_state, nullptr);
      return;
    }
    saved_cancel_state_ = cancel_state;  // try_enter() has seen the disabled state
    read_clock();
    drain();
  }
}

void Lane::read_clock() {
  const engine::Time time = runtime::now();
  if (time > now_) now_ = time;
}

size_t Lane::pass(Look look) {
  read_clock();
  looked_ns_.store(now_.ns, std::memory_order_relaxed);
  if (++passes_ % kPassesPerHandlerCheck == 0) memory_->check_handlers();
  size_t received = 0;
  if (transport_ != nullptr) {
    for (int i = 0; i < kReceiveCallsPerPass; ++i) {
      const size_t n = transport_->receive(*this);
      received += n;
      // A few packets are a question that waits for its answer; a whole run is a stream with more behind it.
      if (n == 0 || (look == Look::at_once && n < kStreamPackets)) break;
    }
  }
  hold_acknowledgements(received > 0);
  const auto deadline = engine_.next_deadline();
  if (deadline && *deadline <= now_) engine_.on_deadline(now_);
  drain();
  return received;
}

// What came in is likely to be answered at once, and the acknowledgement is nearly free behind that answer.
// It leaves by itself at the first look that finds nothing, or a little later.
void Lane::hold_acknowledgements(bool received) {
  const int64_t left = holding_ ? held_until_ - now_ : -kHoldNs;
  if (!received && left > kHoldNs - kLeastHoldNs) return;
  if (!received) {
    engine_.hold_acknowledgements(engine::Time{INT64_MIN});
    holding_ = false;
  } else if (left <= -kHoldNs) {  // none, or one of long ago
    held_until_ = now_ + kHoldNs;
    engine_.hold_acknowledgements(held_until_);
    holding_ = true;
  } else if (left <= 0) {
    holding_ = false;  // drain() sends them; the next arrival begins anew
  }
}

void Lane::settle_debts() {
  read_clock();
  holding_ = false;
  hold_acknowledgements(false);
  drain();
}

void Lane::follow_device_page() {
  uroce_device_page page;
  page_.copy(page);
  page_sequence_ = page.sequence;
  const auto mtu = static_cast<engine::PathMtu>(page.active_mtu);
  if (mtu >= engine::PathMtu::mtu_256 && mtu <= engine::PathMtu::mtu_4096) engine_.set_port_mtu(mtu);
}

void Lane::drain() {
  if (page_.sequence() != page_sequence_) follow_device_page();
  if (engine_.has_rings()) engine_.take_rings(now_);
  for (int i = 0; i < kBatchesPerDrain && transmit(); ++i) {
  }
  engine::Event event;
  while (engine_.poll_event(event)) {
    if (event.kind != engine::Event::Kind::qp_state) {
      kicks_.push(event);
    } else if (states_ != nullptr) {
      publish_qp_state(*states_, wire::Qpn(event.id), event.async);
    }
  }
}

// One batch out. True: there may be more and it may leave now.
bool Lane::transmit() {
  if (transport_ == nullptr) {
    batch_.clear();
    return engine_.poll_transmit(now_, batch_);
  }
  if (unsent_ == batch_.entries().size()) {
    batch_.clear();
    unsent_ = 0;
    const bool more = engine_.poll_transmit(now_, batch_);
    if (batch_.empty()) return more;
  }
  unsent_ += transport_->send(batch_, unsent_);
  return unsent_ == batch_.entries().size();
}

void Lane::publish_deadline() {
  int64_t deadline = INT64_MAX;
  if (const auto engine_deadline = engine_.next_deadline()) deadline = engine_deadline->ns;
  if (unsent_ < batch_.entries().size() && now_.ns + kRetrySendNs < deadline)
    deadline = now_.ns + kRetrySendNs;
  deadline_ns_.store(deadline, std::memory_order_release);
}

void Lane::on_packet(std::span<const std::byte> packet, const engine::RxMeta& meta) {
  if (!destination_is_ours(meta)) {
    ++foreign_destination_;
    return;
  }
  engine_.on_packet(now_, packet, meta);
}

void Lane::take_packet(std::span<const std::byte> packet, const engine::RxMeta& meta) {
  on_packet(packet, meta);
}

// The host has addresses that are no GIDs of this device, and groups on other netdevs; the socket takes them
// all.
bool Lane::destination_is_ours(const engine::RxMeta& meta) {
  if (meta.destination.is_multicast()) return meta.ifindex == page_.ifindex();
  if (page_.sequence() == last_sequence_ && meta.destination == last_destination_) return true;
  const uint32_t sequence = page_.sequence();
  if (!page_.has_gid(meta.destination)) return false;
  last_sequence_ = sequence;
  last_destination_ = meta.destination;
  return true;
}

void Lane::fail() {
  read_clock();
  engine_.fail_all(now_);
  batch_.clear();
  unsent_ = 0;
  transport_.reset();
  drain();
}

}  // namespace uroce::runtime
