// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/unreliable_pace.h"

#include <gtest/gtest.h>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

struct Pace : ::testing::TestWithParam<QpType> {
  Pace() : from(world.a.region(1 << 20)), to(world.b.region(1 << 20)) {
    QpOptions options;
    options.type = GetParam();
    options.mtu = PathMtu::mtu_4096;
    options.capabilities.max_send_wr = 1024;
    if (GetParam() == QpType::uc) {
      pair = world.connect(options);
    } else {
      pair = {world.datagram_qp(world.a, options), world.datagram_qp(world.b, options)};
    }
  }
  void post(uint64_t id, uint32_t bytes) {
    const SgEntry sge = from.sge(0, bytes);
    SendRequest r = request(WrOpcode::send, id, {&sge, 1});
    r.ud_path = PathId{2};
    r.ud_qpn = pair.b->qpn();
    r.ud_qkey = 0x11111111;
    ASSERT_EQ(world.a.post(pair.a, r), 0);
  }
  World world;
  Region from;
  Region to;
  Pair pair;
};

TEST_P(Pace, a_stream_leaves_in_bursts_at_the_rate_and_all_of_it) {
  for (uint64_t i = 0; i < 500; ++i) post(i, 4096);
  size_t bytes = 0;
  size_t largest = 0;
  const Time begin = world.now();
  size_t done = 0;
  for (;;) {
    size_t burst = 0;
    for (const Frame& frame : world.outgoing(world.a)) burst += frame.bytes.size();
    bytes += burst;
    largest = std::max(largest, burst);
    for (const Completion& c : world.a.poll()) {
      EXPECT_EQ(c.wr_id, done++);
      EXPECT_EQ(c.status, WcStatus::success);
    }
    const auto next = world.a.engine.next_deadline();
    if (!next) break;
    world.advance(*next - world.now());
  }
  // What advance() sent is in the count of completions only.
  EXPECT_EQ(done, 500u);
  EXPECT_LE(largest, (64u << 10) + 8192);
  const int64_t microseconds = (world.now() - begin) / 1000;
  EXPECT_GE(microseconds, (500 * 4096 - (64 << 10)) / 1000 - 70);
  EXPECT_LE(microseconds, 500 * 4096 / 1000 + 70);
}

TEST(PaceRate, follows_the_receive_buffer_within_limits) {
  using engine::unreliable_pace::rate_for;
  EXPECT_EQ(rate_for(2 * 212992), 106u) << "the kernel's own";
  EXPECT_EQ(rate_for(64 << 20), 1000u);
  EXPECT_EQ(rate_for(0), 50u);
}

TEST_P(Pace, a_few_messages_now_and_then_do_not_wait) {
  for (uint64_t i = 0; i < 10; ++i) {
    post(i, 4000);
    EXPECT_GE(world.outgoing(world.a).size(), 1u);
    EXPECT_EQ(world.a.poll().size(), 1u);
    world.advance(10'000);
  }
}

TEST_P(Pace, reset_while_waiting_leaves_no_timer) {
  for (uint64_t i = 0; i < 500; ++i) post(i, 4096);
  world.exchange();
  EXPECT_TRUE(world.a.engine.next_deadline().has_value());
  ASSERT_EQ(world.a.modify(pair.a, QpState::reset), 0);
  world.exchange();
  EXPECT_FALSE(world.a.engine.next_deadline().has_value());
}

INSTANTIATE_TEST_SUITE_P(Type, Pace, ::testing::Values(QpType::uc, QpType::ud));

}  // namespace
}  // namespace uroce::test
