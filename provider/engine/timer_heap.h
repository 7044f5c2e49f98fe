// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Deadlines of queue pairs in an intrusive binary heap, one entry for each. A deadline that moves later costs
// nothing: the entry stays, comes up early and is put back. Room is taken when a queue pair is created, never
// under traffic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "provider/engine/path.h"

namespace uroce::engine {

inline constexpr Time kNever{std::numeric_limits<int64_t>::max()};

// What the heap needs in an element.
struct TimerSlot {
  Time at = kNever;       // when the entry comes up
  uint32_t position = 0;  // in the heap, one-based; 0: not in it
};

template <typename T, TimerSlot T::*Slot>
class TimerHeap {
 public:
  void reserve(size_t elements) { heap_.reserve(elements); }

  // The element comes up at `at` or earlier.
  void arm(T& element, Time at) {
    TimerSlot& slot = element.*Slot;
    if (at == kNever || (slot.position != 0 && slot.at <= at)) return;
    slot.at = at;
    if (slot.position == 0) {
      heap_.push_back(&element);
      slot.position = static_cast<uint32_t>(heap_.size());
    }
    sift_up(slot.position - 1);
  }

  void remove(T& element) {
    TimerSlot& slot = element.*Slot;
    if (slot.position == 0) return;
    const size_t hole = slot.position - 1;
    slot = {};
    T* moved = heap_.back();
    heap_.pop_back();
    if (hole == heap_.size()) return;
    place(hole, moved);
    sift_up(hole);
    sift_down((moved->*Slot).position - 1);
  }

  Time next() const { return heap_.empty() ? kNever : (heap_.front()->*Slot).at; }

  // Takes out one element that is due, or nullptr.
  T* pop_due(Time now) {
    if (next() > now) return nullptr;
    T* element = heap_.front();
    remove(*element);
    return element;
  }

 private:
  Time at(size_t i) const { return (heap_[i]->*Slot).at; }
  void place(size_t i, T* element) {
    heap_[i] = element;
    (element->*Slot).position = static_cast<uint32_t>(i + 1);
  }
  void swap(size_t a, size_t b) {
    T* element = heap_[a];
    place(a, heap_[b]);
    place(b, element);
  }
  void sift_up(size_t i) {
    for (; i > 0 && at(i) < at((i - 1) / 2); i = (i - 1) / 2) swap(i, (i - 1) / 2);
  }
  void sift_down(size_t i) {
    for (size_t child = 2 * i + 1; child < heap_.size(); child = 2 * i + 1) {
      if (child + 1 < heap_.size() && at(child + 1) < at(child)) ++child;
      if (at(i) <= at(child)) return;
      swap(i, child);
      i = child;
    }
  }

  std::vector<T*> heap_;
};

}  // namespace uroce::engine
