// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/kick_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

namespace uroce::runtime {
namespace {

engine::Event completion(uint32_t cq, uint64_t handle) {
  return {engine::Event::Kind::completion, 0, cq, handle};
}

TEST(KickQueue, sends_in_order_and_once) {
  std::vector<uint64_t> sent;
  KickQueue queue([&](const uroce_kick& kick) { return sent.push_back(kick.user_handle), 0; });
  for (uint64_t i = 0; i < 1000; ++i) queue.push(completion(1, i));
  EXPECT_FALSE(queue.empty());
  EXPECT_FALSE(queue.flush());
  EXPECT_TRUE(queue.empty());
  ASSERT_EQ(sent.size(), 1000u);
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(sent[i], i);
  EXPECT_FALSE(queue.flush());
  EXPECT_EQ(sent.size(), 1000u);
}

TEST(KickQueue, full_channel_keeps_its_kick) {
  bool full = true;
  std::vector<uint32_t> sent;
  KickQueue queue([&](const uroce_kick& kick) {
    if (full && kick.id == 1) return EAGAIN;
    sent.push_back(kick.id);
    return 0;
  });
  queue.push(completion(1, 0));
  queue.push(completion(2, 0));
  EXPECT_TRUE(queue.flush());
  EXPECT_EQ(sent, std::vector<uint32_t>{2});
  EXPECT_FALSE(queue.empty());
  full = false;
  EXPECT_FALSE(queue.flush());
  EXPECT_EQ(sent, (std::vector<uint32_t>{2, 1}));
}

TEST(KickQueue, any_other_error_drops_the_kick) {
  KickQueue queue([](const uroce_kick&) { return EINVAL; });
  queue.push(completion(1, 0));
  EXPECT_FALSE(queue.flush());
  EXPECT_TRUE(queue.empty());
}

TEST(KickQueue, destroyed_object_is_forgotten) {
  std::vector<uint32_t> sent;
  KickQueue queue([&](const uroce_kick& kick) { return sent.push_back(kick.id), 0; });
  queue.push(completion(1, 0));
  queue.push(completion(2, 0));
  queue.push(engine::Event{engine::Event::Kind::async_qp, 1, 1, 0});
  queue.forget(UROCE_KICK_COMPLETION, 1);
  EXPECT_FALSE(queue.flush());
  EXPECT_EQ(sent, (std::vector<uint32_t>{2, 1}));
}

TEST(KickQueue, two_threads_lose_nothing) {
  std::atomic<int> sent{0};
  KickQueue queue([&](const uroce_kick&) { return ++sent, 0; });
  auto work = [&] {
    for (int i = 0; i < 20000; ++i) {
      queue.push(completion(1, 0));
      queue.flush();
    }
  };
  std::thread a(work), b(work);
  a.join();
  b.join();
  queue.flush();
  EXPECT_EQ(sent, 40000);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace uroce::runtime
