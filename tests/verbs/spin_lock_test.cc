// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/spin_lock.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace uroce::verbs {
namespace {

template <typename Lock>
uint64_t count_with_threads() {
  constexpr int kThreads = 4;
  constexpr int kTurns = 20000;
  Lock lock;
  uint64_t counter = 0;  // not atomic: the lock is all there is
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        const std::lock_guard guard(lock);
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, uint64_t{kThreads} * kTurns);
  return counter;
}

TEST(SpinLock, one_holder_at_a_time) {
  count_with_threads<SpinLock>();
}
TEST(RecursiveSpinLock, one_holder_at_a_time) {
  count_with_threads<RecursiveSpinLock>();
}

TEST(SpinLock, a_held_lock_is_not_taken) {
  SpinLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

TEST(RecursiveSpinLock, its_holder_may_take_it_again_and_others_wait_for_the_last_unlock) {
  RecursiveSpinLock lock;
  bool inside = false;
  lock.lock();
  lock.lock();
  std::thread other([&] {
    const std::lock_guard guard(lock);
    inside = true;
  });
  lock.unlock();
  EXPECT_FALSE(inside);
  lock.unlock();
  other.join();
  EXPECT_TRUE(inside);
}

}  // namespace
}  // namespace uroce::verbs
