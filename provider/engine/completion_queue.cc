// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

namespace uroce::engine {

namespace {
enum Armed : uint32_t { kNotArmed = 0, kArmedSolicited = 1, kArmedAny = 2 };

// Where the consumer is the only one who counts.
void count_polled(std::atomic<uint32_t>& polled) {
  polled.store(polled.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}
}  // namespace

// Indices only grow. The ring is at least twice the capacity where the oldest entry may be overwritten, so
// that the entry a consumer is looking at stays whole for another `capacity` completions.
struct CompletionQueue::Ring {
  Ring(uint32_t slots) : mask(slots - 1), entries(std::make_unique<Completion[]>(slots)) {}
  Completion& at(uint32_t index) { return entries[index & mask]; }
  const Completion& at(uint32_t index) const { return entries[index & mask]; }

  alignas(64) std::atomic<uint32_t> tail{0};
  uint32_t known_head = 0;  // producer's last look at `head`
  alignas(64) std::atomic<uint32_t> head{0};
  alignas(64) uint32_t mask;
  std::unique_ptr<Completion[]> entries;
};

CompletionQueue::CompletionQueue(uint32_t id, uint32_t capacity, bool ignore_overrun)
    : id_(id),
      capacity_(capacity),
      ignore_overrun_(ignore_overrun),
      ring_(std::make_unique<Ring>(std::bit_ceil(capacity) * (ignore_overrun ? 2 : 1))) {}

CompletionQueue::~CompletionQueue() = default;

bool CompletionQueue::push(const Completion& completion, bool solicited, bool& notify) {
  notify = false;
  Ring& ring = *ring_;
  const uint32_t tail = ring.tail.load(std::memory_order_relaxed);
  if (tail - ring.known_head >= capacity_) {
    uint32_t head = ring.head.load(std::memory_order_acquire);
    if (tail - head >= capacity_) {
      if (!ignore_overrun_) {
        overrun_ = true;
        return false;
      }
      // The consumer may take the oldest entry at this moment; then there is room as well.
      std::atomic<uint32_t>* const polled = ring.at(head).polled;
      if (ring.head.compare_exchange_strong(head, head + 1, std::memory_order_acq_rel)) {
        if (polled != nullptr) polled->fetch_add(1, std::memory_order_release);
        ++head;
      }
    }
    ring.known_head = head;
  }
  if (overrun_) return false;
  ring.at(tail) = completion;
  // Sequentially consistent on both sides: either the consumer, having armed, finds this entry, or we find it
  // armed.
  ring.tail.store(tail + 1, std::memory_order_seq_cst);
  const uint32_t armed = armed_.load(std::memory_order_seq_cst);
  if (armed == kNotArmed ||
      (armed == kArmedSolicited && !solicited && completion.status == WcStatus::success))
    return true;
  const bool hold = ++held_ < moderation_ && completion.status == WcStatus::success &&
                    tail + 1 - ring.head.load(std::memory_order_relaxed) < capacity_;
  if (hold) return true;
  notify = release();
  return true;
}

bool CompletionQueue::release() {
  if (held_ == 0) return false;
  held_ = 0;
  return armed_.exchange(kNotArmed, std::memory_order_acq_rel) != kNotArmed;
}

uint32_t CompletionQueue::poll(uint32_t n, Completion* out) {
  Ring& ring = *ring_;
  uint32_t head = ring.head.load(std::memory_order_relaxed);
  const uint32_t waiting = ring.tail.load(std::memory_order_seq_cst) - head;
  const uint32_t take = std::min(n, waiting);
  if (take == 0) return 0;
  if (ignore_overrun_) {
    uint32_t taken = 0;
    while (taken < take) {
      const Completion* oldest = peek();
      if (oldest == nullptr) break;
      out[taken] = *oldest;
      head = ring.head.load(std::memory_order_relaxed);
      if (&ring.at(head) != oldest) continue;  // overwritten while we copied
      if (!ring.head.compare_exchange_strong(head, head + 1, std::memory_order_acq_rel)) continue;
      if (out[taken].polled != nullptr) out[taken].polled->fetch_add(1, std::memory_order_release);
      ++taken;
    }
    return taken;
  }
  for (uint32_t i = 0; i < take; ++i) out[i] = ring.at(head + i);
  ring.head.store(head + take, std::memory_order_release);
  // In this order: what is posted into a place that this frees finds room here when it completes.
  for (uint32_t i = 0; i < take; ++i) {
    if (out[i].polled != nullptr) count_polled(*out[i].polled);
  }
  return take;
}

const Completion* CompletionQueue::peek() const {
  const Ring& ring = *ring_;
  const uint32_t head = ring.head.load(std::memory_order_relaxed);
  return head == ring.tail.load(std::memory_order_seq_cst) ? nullptr : &ring.at(head);
}

void CompletionQueue::consume() {
  Ring& ring = *ring_;
  uint32_t head = ring.head.load(std::memory_order_relaxed);
  if (head == ring.tail.load(std::memory_order_relaxed)) return;
  std::atomic<uint32_t>* const polled = ring.at(head).polled;
  // Fails when the entry was overwritten meanwhile: then it is gone already.
  if (!ring.head.compare_exchange_strong(head, head + 1, std::memory_order_acq_rel)) return;
  if (polled != nullptr) polled->fetch_add(1, std::memory_order_release);
}

void CompletionQueue::purge(uint32_t qp_num, uint32_t srq_number) {
  Ring& ring = *ring_;
  const uint32_t head = ring.head.load(std::memory_order_relaxed);
  const uint32_t tail = ring.tail.load(std::memory_order_relaxed);
  uint32_t kept = tail;
  for (uint32_t i = tail; i != head;) {
    const Completion& entry = ring.at(--i);
    const bool drop = srq_number != 0 ? entry.srq_number == srq_number : entry.qp_num == qp_num;
    if (!drop) ring.at(--kept) = entry;
  }
  ring.head.store(kept, std::memory_order_release);
}

int CompletionQueue::resize(uint32_t capacity) {
  if (capacity == 0) return EINVAL;
  const uint32_t head = ring_->head.load(std::memory_order_relaxed);
  const uint32_t waiting = ring_->tail.load(std::memory_order_relaxed) - head;
  if (waiting > capacity) return EINVAL;
  std::unique_ptr<Ring> ring;
  try {
    ring = std::make_unique<Ring>(std::bit_ceil(capacity) * (ignore_overrun_ ? 2 : 1));
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  for (uint32_t i = 0; i < waiting; ++i) ring->at(i) = ring_->at(head + i);
  ring->tail.store(waiting, std::memory_order_relaxed);
  ring_ = std::move(ring);
  capacity_ = capacity;
  return 0;
}

void CompletionQueue::arm(bool solicited_only) {
  if (!solicited_only) {
    armed_.store(kArmedAny, std::memory_order_seq_cst);
    return;
  }
  uint32_t expected = kNotArmed;
  armed_.compare_exchange_strong(expected, kArmedSolicited, std::memory_order_seq_cst);
}

bool CompletionQueue::empty() const {
  return peek() == nullptr;
}

}  // namespace uroce::engine
