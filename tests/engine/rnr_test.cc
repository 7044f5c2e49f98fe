// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Receiver not ready: the timer table, the retry counter, and receives that come late.
#include <gtest/gtest.h>

#include "provider/engine/rnr_timer.h"
#include "tests/engine/world.h"

namespace uroce::test {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

TEST(RnrTimer, codes_mean_what_table_45_says) {
  EXPECT_EQ(engine::rnr_timer_ns(0), 655'360 * kUs);
  EXPECT_EQ(engine::rnr_timer_ns(1), 10 * kUs);
  EXPECT_EQ(engine::rnr_timer_ns(2), 20 * kUs);
  EXPECT_EQ(engine::rnr_timer_ns(5), 60 * kUs);
  EXPECT_EQ(engine::rnr_timer_ns(12), 640 * kUs);
  EXPECT_EQ(engine::rnr_timer_ns(16), 2'560 * kUs);
  EXPECT_EQ(engine::rnr_timer_ns(31), 491'520 * kUs);
  for (uint8_t code = 2; code < 32; ++code)
    EXPECT_GT(engine::rnr_timer_ns(code), engine::rnr_timer_ns(code - 1));
}

TEST(Rnr, the_requester_waits_as_long_as_the_responder_says) {
  for (const uint8_t code : {1, 12, 20, 0}) {
    World world;
    QpOptions options;
    options.min_rnr_timer = code;
    const Pair pair = world.connect(options);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
    world.exchange();
    const Time refused = world.now();
    ASSERT_EQ(world.b.receive(pair.b, 1), 0);
    EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
    EXPECT_EQ(world.now() - refused, engine::rnr_timer_ns(code));
    EXPECT_EQ(world.a.engine.counters().rcvd_rnr_err, 1u);
    EXPECT_EQ(world.b.engine.counters().send_rnr_err, 1u);
  }
}

TEST(Rnr, retries_are_counted_zero_means_none) {
  for (const uint8_t retries : {0, 1, 3, 6}) {
    World world;
    QpOptions options;
    options.rnr_retry = retries;
    const Pair pair = world.connect(options);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 2)), 0);
    const auto done = world.completions(world.a, 2);
    EXPECT_EQ(done[0].status, WcStatus::rnr_retry_exceeded);
    EXPECT_EQ(done[1].status, WcStatus::flush_error);
    EXPECT_EQ(world.b.engine.counters().send_rnr_err, retries + 1u);
    EXPECT_EQ(pair.a->state(), QpState::error);
    EXPECT_EQ(pair.b->state(), QpState::rts);
  }
}

TEST(Rnr, seven_means_for_ever) {
  World world;
  QpOptions options;
  options.rnr_retry = 7;
  options.min_rnr_timer = 20;
  const Pair pair = world.connect(options);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  world.advance(60'000 * kMs);
  EXPECT_TRUE(world.a.poll().empty());
  EXPECT_GT(world.b.engine.counters().send_rnr_err, 1000u);
  ASSERT_EQ(world.b.receive(pair.b, 1), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
}

TEST(Rnr, progress_gives_the_retries_back) {
  World world;
  QpOptions options;
  options.rnr_retry = 1;
  const Pair pair = world.connect(options);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, i)), 0);
    world.exchange();
    ASSERT_EQ(world.b.receive(pair.b, i), 0);
    EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  }
}

TEST(Rnr, every_kind_of_message_waits_and_arrives_whole) {
  for (const WrOpcode opcode : {WrOpcode::send, WrOpcode::send_imm, WrOpcode::write_imm}) {
    for (const uint32_t bytes : {0u, 10u, 1024u, 5000u}) {
      World world;
      const Pair pair = world.connect();
      const Region from = world.a.region(8192);
      const Region to = world.b.region(8192);
      world.a.memory.fill(from.va, 8192, 4);
      const SgEntry sge = from.sge(0, bytes);
      SendRequest r = request(opcode, 1, {&sge, 1}, to.va, to.key);
      r.imm_be = 0x01020304;
      ASSERT_EQ(world.a.post(pair.a, r), 0);
      world.exchange();
      EXPECT_TRUE(world.a.poll().empty());
      const bool write = opcode == WrOpcode::write_imm;
      ASSERT_EQ(world.b.receive(pair.b, 5, write ? std::vector<SgEntry>{} : std::vector<SgEntry>{to.sge()}),
                0);
      EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success)
          << static_cast<int>(opcode) << " " << bytes;
      const Completion received = world.completions(world.b, 1)[0];
      EXPECT_EQ(received.status, WcStatus::success);
      EXPECT_EQ(received.byte_len, bytes);
      EXPECT_EQ(received.opcode, write ? WcOpcode::recv_rdma_with_imm : WcOpcode::recv);
      if (opcode != WrOpcode::send) {
        EXPECT_EQ(received.flags, Completion::kWithImm);
        EXPECT_EQ(received.imm_or_rkey, 0x01020304u);
      }
      EXPECT_TRUE(world.b.memory.holds(to.va, bytes, 4));
    }
  }
}

TEST(Rnr, requests_behind_the_waiting_one_keep_their_order) {
  World world;
  const Pair pair = world.connect();
  const Region to = world.b.region(64);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 2 * i)), 0);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 2 * i + 1, {}, to.va, to.key)), 0);
  }
  std::vector<Completion> done;
  for (uint64_t i = 0; i < 3; ++i) {
    world.exchange();
    ASSERT_EQ(world.b.receive(pair.b, i), 0);
    for (const Completion& c : world.completions(world.a, 2)) done.push_back(c);
  }
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(done[i].status, WcStatus::success);
  }
}

TEST(Rnr, receives_without_entries_take_empty_messages_only) {
  World world;
  const Pair pair = world.connect();
  const Region from = world.a.region(64);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(world.b.receive(pair.b, i), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send_imm, 2)), 0);
  const SgEntry one = from.sge(0, 1);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 3, {&one, 1})), 0);
  const auto done = world.completions(world.a, 3);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::success);
  EXPECT_EQ(done[2].status, WcStatus::remote_invalid_request);
  EXPECT_EQ(world.b.poll().at(2).status, WcStatus::local_length_error);
}

}  // namespace
}  // namespace uroce::test
