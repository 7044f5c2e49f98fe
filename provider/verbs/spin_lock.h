// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Locks of the queues: held for the copy of a few entries, never across a system call that can block.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>

namespace uroce::verbs {

class SpinLock {
 public:
  void lock() {
    if (!held_.exchange(true, std::memory_order_acquire)) return;
    wait();
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  // The holder may have lost its CPU: look a while, then let it run. sched_yield is no cancellation point.
  void wait() {
    for (int spins = 0;; ++spins) {
      if (!held_.load(std::memory_order_relaxed) && try_lock()) return;
      if (spins >= kSpinsBeforeYield) sched_yield();
    }
  }
  static constexpr int kSpinsBeforeYield = 64;
  std::atomic<bool> held_{false};
};

// A lock that its holder may take again: a program polls through start_poll .. end_poll, which holds the CQ's
// lock, and may destroy a queue pair in between, which needs it too.
class RecursiveSpinLock {
 public:
  void lock() {
    const pthread_t self = pthread_self();
    if (owner_.load(std::memory_order_relaxed) == self) {
      ++depth_;
      return;
    }
    lock_.lock();
    owner_.store(self, std::memory_order_relaxed);
  }
  void unlock() {
    if (depth_ != 0) {
      --depth_;
      return;
    }
    owner_.store(pthread_t{}, std::memory_order_relaxed);
    lock_.unlock();
  }

 private:
  SpinLock lock_;
  std::atomic<pthread_t> owner_{};
  unsigned depth_ = 0;  // further times the owner has it
};

}  // namespace uroce::verbs
