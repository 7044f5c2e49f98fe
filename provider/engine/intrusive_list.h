// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A doubly linked FIFO through a member of the elements: no allocation, removal in the middle, membership is
// asked of the element.
#pragma once

namespace uroce::engine {

template <typename T>
struct ListLink {
  T* previous = nullptr;
  T* next = nullptr;
  bool linked = false;
};

template <typename T, ListLink<T> T::*Link>
class IntrusiveList {
 public:
  bool empty() const { return first_ == nullptr; }
  T* front() const { return first_; }

  // Nothing when `element` is already in the list.
  void push_back(T& element) {
    ListLink<T>& link = element.*Link;
    if (link.linked) return;
    link = {last_, nullptr, true};
    (last_ != nullptr ? (last_->*Link).next : first_) = &element;
    last_ = &element;
  }

  void push_front(T& element) {
    ListLink<T>& link = element.*Link;
    if (link.linked) return;
    link = {nullptr, first_, true};
    (first_ != nullptr ? (first_->*Link).previous : last_) = &element;
    first_ = &element;
  }

  // Nothing when `element` is not in the list.
  void remove(T& element) {
    ListLink<T>& link = element.*Link;
    if (!link.linked) return;
    (link.previous != nullptr ? (link.previous->*Link).next : first_) = link.next;
    (link.next != nullptr ? (link.next->*Link).previous : last_) = link.previous;
    link = {};
  }

  T* pop_front() {
    T* element = first_;
    if (element != nullptr) remove(*element);
    return element;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace uroce::engine
