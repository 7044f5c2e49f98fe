// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What leaves in one batch: long runs of equal packets, acknowledgements behind data, nothing beyond the room
// there is. And messages of two gigabytes.
#include <gtest/gtest.h>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

struct Batches : ::testing::TestWithParam<PathMtu> {};

TEST_P(Batches, a_64_kib_write_is_one_run_of_equal_packets) {
  World world;
  QpOptions options;
  options.mtu = GetParam();
  const uint32_t mtu = engine::bytes_of(GetParam());
  const Pair pair = world.connect(options);
  const Region local = world.a.region(1 << 20);
  const Region remote = world.b.region(1 << 20);
  const SgEntry all = local.sge();
  const SgEntry sge = local.sge(0, 65536);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 0, {&all, 1}, remote.va, remote.key)), 0);
  world.completions(world.a, 1);  // the window is open now
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, remote.va, remote.key)), 0);
  std::vector<std::byte> storage(256 << 10);
  engine::TxBatch batch(storage);
  world.a.engine.take_rings(world.now());
  EXPECT_FALSE(world.a.engine.poll_transmit(world.now(), batch));
  const auto entries = batch.entries();
  ASSERT_EQ(entries.size(), 65536 / mtu);
  EXPECT_EQ(entries[0].length, 12 + 16 + mtu);
  for (size_t i = 1; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].length, 12 + mtu);
    EXPECT_EQ(entries[i].offset, entries[i - 1].offset + entries[i - 1].length + 4);
    EXPECT_EQ(entries[i].path, entries[0].path);
  }
}

INSTANTIATE_TEST_SUITE_P(Mtu, Batches, ::testing::Values(PathMtu::mtu_1024, PathMtu::mtu_4096));

TEST(Batch, an_acknowledgement_leaves_behind_the_data_of_its_queue_pair) {
  World world;
  const Pair pair = world.connect();
  const Region to_a = world.a.region(64);
  const Region to_b = world.b.region(64);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {}, to_b.va, to_b.key)), 0);
  for (const Frame& frame : world.outgoing(world.a)) world.deliver(world.b, frame);
  const SgEntry sge = to_b.sge(0, 16);
  ASSERT_EQ(world.b.post(pair.b, request(WrOpcode::write, 2, {&sge, 1}, to_a.va, to_a.key)), 0);
  const auto frames = world.outgoing(world.b);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].parse().bth.opcode, Opcode::rc_write_only);
  EXPECT_EQ(frames[1].parse().bth.opcode, Opcode::rc_acknowledge);
}

// B answered a moment ago and will answer again: its acknowledgement may wait for that.
TEST(Batch, a_held_acknowledgement_waits_for_data_but_not_for_ever) {
  World world;
  const Pair pair = world.connect();
  const Region to_a = world.a.region(64);
  const Region to_b = world.b.region(64);
  ASSERT_EQ(world.b.post(pair.b, request(WrOpcode::write, 1, {}, to_a.va, to_a.key)), 0);
  world.completions(world.b, 1);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 2, {}, to_b.va, to_b.key)), 0);
  world.b.engine.hold_acknowledgements(world.now() + 20'000);
  for (const Frame& frame : world.outgoing(world.a)) world.deliver(world.b, frame);
  EXPECT_TRUE(world.outgoing(world.b).empty());
  ASSERT_TRUE(world.b.engine.next_deadline().has_value());
  EXPECT_EQ(world.b.engine.next_deadline()->ns, world.now().ns + 20'000);
  world.advance(20'000);
  EXPECT_EQ(world.a.poll().size(), 1u);
}

TEST(Batch, a_queue_pair_that_only_receives_is_not_held_back) {
  World world;
  const Pair pair = world.connect();
  const Region to_b = world.b.region(64);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {}, to_b.va, to_b.key)), 0);
  world.b.engine.hold_acknowledgements(world.now() + 20'000);
  for (const Frame& frame : world.outgoing(world.a)) world.deliver(world.b, frame);
  EXPECT_EQ(world.outgoing(world.b).size(), 1u);
}

TEST(Batch, little_room_loses_nothing) {
  World world;
  QpOptions options;
  options.mtu = PathMtu::mtu_256;
  const Pair pair = world.connect(options);
  const Region local = world.a.region(65536);
  const Region remote = world.b.region(65536);
  world.a.memory.fill(local.va, 65536, 4);
  const SgEntry sge = local.sge();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, remote.va, remote.key)), 0);
  std::vector<std::byte> storage(700);  // two packets
  engine::TxBatch batch(storage);
  for (int step = 0; step < 10'000; ++step) {
    for (Host* from : {&world.a, &world.b}) {
      from->engine.take_rings(world.now());
      batch.clear();
      from->engine.poll_transmit(world.now(), batch);
      EXPECT_LE(batch.entries().size(), 17u);
      for (const auto& entry : batch.entries()) {
        const std::byte* p = batch.data() + entry.offset;
        Frame frame{from->slot, entry.path, entry.dest_qpn, 2, {p, p + entry.length}};
        world.deliver(from == &world.a ? world.b : world.a, frame);
      }
    }
  }
  EXPECT_EQ(world.a.poll().at(0).status, WcStatus::success);
  EXPECT_TRUE(world.b.memory.holds(remote.va, 65536, 4));
}

// Two gigabytes through memory that is not there: a null region on each side.
struct TwoGigabytes {
  explicit TwoGigabytes(PathMtu mtu) {
    QpOptions options;
    options.mtu = mtu;
    pair = world.connect(options);
    engine::MrConfig config;
    config.pd = kPd;
    config.access = kAllAccess;
    config.null = true;
    key = config.key = world.a.new_key();
    EXPECT_EQ(world.a.engine.register_mr(config), 0);
    EXPECT_EQ(world.b.engine.register_mr(config), 0);
    halves[0] = halves[1] = {0, 1u << 30, key};
  }

  World world;
  Pair pair;
  uint32_t key;
  SgEntry halves[2];
};

#ifndef UROCE_SIM_SHORT  // a sanitizer build needs minutes for the packets
struct Huge : ::testing::TestWithParam<PathMtu> {};

TEST_P(Huge, messages_of_two_gigabytes) {
  TwoGigabytes two(GetParam());
  auto& [world, pair, key, halves] = two;
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, halves, 0x1000, key)), 0);
  ASSERT_EQ(world.b.receive(pair.b, 2, {halves[0], halves[1]}), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 2, halves)), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, 3, halves, 0x1000, key)), 0);
  const auto done = world.completions(world.a, 3);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(done[i].wr_id, i + 1);
    EXPECT_EQ(done[i].status, WcStatus::success);
  }
  EXPECT_EQ(done[2].byte_len, 1u << 31);
  EXPECT_EQ(world.b.poll().at(0).byte_len, 1u << 31);
  EXPECT_EQ(world.a.engine.counters().retransmitted_pkts, 0u);
}

INSTANTIATE_TEST_SUITE_P(Mtu, Huge, ::testing::Values(PathMtu::mtu_256, PathMtu::mtu_4096));
#endif

// At MTU 256 such a message takes half of all PSNs: its beginning and its end look alike.
TEST(Batch, half_of_all_psns_in_one_message_is_not_taken_for_none) {
  TwoGigabytes two(PathMtu::mtu_256);
  auto& [world, pair, key, halves] = two;
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, halves, 0x1000, key)), 0);
  for (int i = 0; i < 50; ++i) {
    const auto frames = world.outgoing(world.a);
    ASSERT_FALSE(frames.empty());
    for (const Frame& frame : frames) world.deliver(world.b, frame);
    for (const Frame& frame : world.outgoing(world.b)) world.deliver(world.a, frame);
  }
  EXPECT_TRUE(world.a.poll().empty());
  EXPECT_EQ(pair.a->state(), QpState::rts);
  EXPECT_EQ(pair.b->state(), QpState::rts);
}

}  // namespace
}  // namespace uroce::test
