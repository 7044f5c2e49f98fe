// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Events on their way to the caller. Each object has each of its events in the queue at most once (the raiser
// looks), so the room reserved when objects are created is always enough and nothing is allocated under
// traffic.
#pragma once

#include <cstddef>
#include <vector>

#include "provider/engine/engine.h"

namespace uroce::engine {

// enum ibv_event_type.
namespace async_event {
inline constexpr uint32_t kCqError = 0, kQpFatal = 1, kQpRequestError = 2, kQpAccessError = 3,
                          kEstablished = 4, kSqDrained = 5, kSrqLimit = 15, kLastWqe = 16;
// Ours: stands for Event::Kind::qp_state where events are counted in bits.
inline constexpr uint32_t kStateChanged = 31;
}  // namespace async_event

struct CoreCq;

class EventQueue {
 public:
  // Room for `events` at one time; never shrinks. Throws std::bad_alloc.
  void reserve(size_t events) {
    if (events + 1 <= ring_.size()) return;
    std::vector<Entry> bigger(2 * events + 16);
    size_t n = 0;
    for (; front() != nullptr; pop()) bigger[n++] = *front();
    ring_ = std::move(bigger);
    first_ = 0;
    end_ = n;
  }

  // `cq`: whose completion it is about.
  void push(const Event& event, CoreCq* cq = nullptr) {
    ring_[end_] = {event, cq};
    end_ = next(end_);
  }
  void pop() { first_ = next(first_); }
  struct Entry {
    Event event;
    CoreCq* cq = nullptr;
  };
  const Entry* front() const { return first_ == end_ ? nullptr : &ring_[first_]; }

  // An object is gone: so are its events.
  template <typename Condition>
  void drop_if(Condition condition) {
    size_t keep = first_;
    for (size_t i = first_; i != end_; i = next(i)) {
      if (condition(ring_[i].event)) continue;
      ring_[keep] = ring_[i];
      keep = next(keep);
    }
    end_ = keep;
  }

 private:
  size_t next(size_t i) const { return i + 1 == ring_.size() ? 0 : i + 1; }
  std::vector<Entry> ring_;
  size_t first_ = 0;
  size_t end_ = 0;
};

}  // namespace uroce::engine
