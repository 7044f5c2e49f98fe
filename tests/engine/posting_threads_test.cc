// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the contract says may run beside the lane: posting, ringing, polling, arming. For the thread
// sanitizer, and for lost work.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

constexpr uint64_t kPosts = 20'000;
constexpr int kPairs = 2;
constexpr uint32_t kCqEntries = 256;

// The two posting threads and the polling thread of one connection.
struct Connection {
  Pair pair;
  CompletionQueue* sends = nullptr;
  CompletionQueue* receives = nullptr;
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

// Never more unpolled than the completion queue holds: `polled` of them are out of it.
void post_all(Host& host, QueuePair* qp, bool send, const std::atomic<uint64_t>& polled) {
  for (uint64_t i = 0; i < kPosts;) {
    if (i - polled.load() >= kCqEntries) {
      std::this_thread::yield();
      continue;
    }
    const int error = send ? host.post(qp, request(WrOpcode::send, i)) : host.receive(qp, i);
    if (error == 0) {
      ++i;
    } else {
      std::this_thread::yield();
    }
  }
}

void poll_all(Connection& connection) {
  Completion batch[8];
  while (connection.sent.load() < kPosts || connection.received.load() < kPosts) {
    for (const bool sending : {true, false}) {
      CompletionQueue* cq = sending ? connection.sends : connection.receives;
      auto& count = sending ? connection.sent : connection.received;
      cq->arm(false);
      const uint32_t n = cq->poll(8, batch);
      for (uint32_t i = 0; i < n; ++i) {
        EXPECT_EQ(batch[i].wr_id, count.load() + i);
        EXPECT_EQ(batch[i].status, WcStatus::success);
      }
      count += n;
    }
  }
}

TEST(PostingThreads, nothing_posted_beside_the_lane_is_lost_or_overtaken) {
  World world;
  Connection connections[kPairs];
  for (Connection& c : connections) {
    QpOptions of_a;
    QpOptions of_b;
    of_a.min_rnr_timer = of_b.min_rnr_timer = 1;
    c.sends = of_a.send_cq = world.a.new_cq(kCqEntries);
    c.receives = of_b.recv_cq = world.b.new_cq(kCqEntries);
    c.pair = world.connect(of_a, of_b);
  }
  std::vector<std::thread> threads;
  for (Connection& c : connections) {
    threads.emplace_back([&] { post_all(world.a, c.pair.a, true, c.sent); });
    threads.emplace_back([&] { post_all(world.b, c.pair.b, false, c.received); });
    threads.emplace_back([&] { poll_all(c); });
  }
  // This thread is the lane of both engines; its clock runs as it works.
  const auto done = [&] {
    for (const Connection& c : connections) {
      if (c.sent.load() < kPosts || c.received.load() < kPosts) return false;
    }
    return true;
  };
  while (!done()) {
    world.advance(10'000);
    world.a.events();
    world.b.events();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(world.a.engine.counters().rdma_sends, kPairs * kPosts);
}

// A full send queue: each completion polled is room for one request, at once.
TEST(PostingThreads, who_polled_one_completion_may_post_one_request) {
  constexpr uint32_t kDepth = 4;
  World world;
  QpOptions of_a;
  of_a.capabilities.max_send_wr = kDepth;
  CompletionQueue* cq = of_a.send_cq = world.a.new_cq(kDepth);
  const Pair pair = world.connect(of_a, {});
  std::atomic<bool> done{false};
  std::thread program([&] {
    uint64_t posted = 0;
    const auto post = [&] {
      const int error = world.a.post(pair.a, request(WrOpcode::write, posted));
      EXPECT_EQ(error, 0) << "request " << posted;
      ++posted;
    };
    while (posted < kDepth) post();
    Completion completion;
    while (posted < kPosts && !testing::Test::HasFailure())
      if (cq->poll(1, &completion) == 1) post();
    done = true;
  });
  while (!done.load()) {
    world.advance(10'000);
    world.a.events();
    world.b.events();
  }
  program.join();
}

}  // namespace
}  // namespace uroce::test
