// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// UC: messages with a hole vanish whole, nobody is told, the next one works.
#include <gtest/gtest.h>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

struct Uc : ::testing::Test {
  Uc() : from(world.a.region(16384)), to(world.b.region(16384)) {
    options.type = QpType::uc;
    pair = world.connect(options);
    world.a.memory.fill(from.va, from.length, 1);
  }
  void send(WrOpcode opcode, uint64_t id, uint32_t bytes) {
    const SgEntry sge = from.sge(0, bytes);
    SendRequest r = request(opcode, id, {&sge, 1}, to.va, to.key);
    r.imm_be = 77;
    ASSERT_EQ(world.a.post(pair.a, r), 0);
  }
  World world;
  QpOptions options;
  Region from;
  Region to;
  Pair pair;
};

TEST_F(Uc, every_opcode_arrives_and_nothing_is_answered) {
  world.tracing = true;
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(world.b.receive(pair.b, i, {to.sge(8192, 8192)}), 0);
  send(WrOpcode::send, 0, 5000);
  send(WrOpcode::send_imm, 1, 0);
  send(WrOpcode::write, 2, 3000);
  send(WrOpcode::write_imm, 3, 3000);
  const auto sent = world.completions(world.a, 4);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(sent[i].status, WcStatus::success);
  }
  const auto received = world.completions(world.b, 3);
  EXPECT_EQ(received[0].byte_len, 5000u);
  EXPECT_EQ(received[1].imm_or_rkey, 77u);
  EXPECT_EQ(received[2].opcode, WcOpcode::recv_rdma_with_imm);
  EXPECT_EQ(received[2].byte_len, 3000u);
  EXPECT_TRUE(world.b.memory.holds(to.va, 3000, 1));
  EXPECT_TRUE(world.b.memory.holds(to.va + 8192, 5000, 1));
  for (const Frame& frame : world.trace) EXPECT_EQ(frame.from, 1u);
}

TEST_F(Uc, a_message_with_a_hole_is_dropped_and_its_receive_serves_the_next) {
  for (int lost = 0; lost < 5; ++lost) {
    SCOPED_TRACE(lost);
    int n = 0;
    world.wire = [&n, lost](Frame&) { return n++ != lost; };
    ASSERT_EQ(world.b.receive(pair.b, 100 + static_cast<uint64_t>(lost), {to.sge()}), 0);
    send(WrOpcode::send, 1, 5000);
    world.exchange();
    EXPECT_TRUE(world.b.poll().empty());
    send(WrOpcode::send, 2, 700);
    world.exchange();
    const auto received = world.b.poll();
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].wr_id, 100 + static_cast<uint64_t>(lost));
    EXPECT_EQ(received[0].byte_len, 700u);
    EXPECT_EQ(world.a.poll().size(), 2u);
  }
  EXPECT_EQ(pair.b->state(), QpState::rts);
  EXPECT_GT(world.b.drops(engine::PacketDrop::broken_message), 0u);
}

TEST_F(Uc, repeated_packets_do_not_arrive_twice) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(world.b.receive(pair.b, i, {to.sge()}), 0);
  send(WrOpcode::send, 1, 100);
  const auto frames = world.outgoing(world.a);
  for (int i = 0; i < 3; ++i) world.deliver(world.b, frames.at(0));
  EXPECT_EQ(world.b.poll().size(), 1u);
  EXPECT_EQ(world.b.drops(engine::PacketDrop::duplicate), 2u);
}

TEST_F(Uc, without_a_receive_the_message_is_lost_and_the_queue_pair_lives) {
  send(WrOpcode::send, 1, 3000);
  world.exchange();
  EXPECT_EQ(world.b.drops(engine::PacketDrop::no_receive), 1u);
  ASSERT_EQ(world.b.receive(pair.b, 1, {to.sge()}), 0);
  send(WrOpcode::send, 2, 10);
  EXPECT_EQ(world.completions(world.b, 1)[0].byte_len, 10u);
}

TEST_F(Uc, a_wrong_key_loses_the_message_only) {
  const SgEntry sge = from.sge(0, 100);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, to.va, 0xbad00)), 0);
  world.exchange();
  EXPECT_EQ(world.b.drops(engine::PacketDrop::bad_request), 1u);
  EXPECT_EQ(pair.b->state(), QpState::rts);
  send(WrOpcode::write, 2, 100);
  world.exchange();
  EXPECT_TRUE(world.b.memory.holds(to.va, 100, 1));
}

TEST_F(Uc, a_receive_that_is_too_small_completes_with_a_length_error_and_the_sender_never_knows) {
  ASSERT_EQ(world.b.receive(pair.b, 1, {to.sge(0, 50)}), 0);
  send(WrOpcode::send, 1, 51);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  EXPECT_EQ(world.completions(world.b, 1)[0].status, WcStatus::local_length_error);
  EXPECT_TRUE(world.b.memory.is_zero(to.va, 64));
  EXPECT_EQ(pair.a->state(), QpState::rts);
}

}  // namespace
}  // namespace uroce::test
