// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// RC without faults: every opcode's bytes, completions and fields.
#include <gtest/gtest.h>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

class RcMessages : public ::testing::TestWithParam<PathMtu> {};

std::vector<uint32_t> interesting_lengths(uint32_t mtu) {
  return {0,       1,           2,       3,           4,           5,     mtu - 1, mtu,
          mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1, 7 * mtu + 3, 65536, 65537};
}

TEST_P(RcMessages, send_arrives_whole_at_every_length) {
  World world;
  QpOptions options;
  options.mtu = GetParam();
  const Pair pair = world.connect(options);
  const Region from = world.a.region(1 << 17);
  const Region to = world.b.region(1 << 17);
  world.a.memory.fill(from.va, from.length, 1);
  uint64_t id = 0;
  for (const uint32_t length : interesting_lengths(engine::bytes_of(GetParam()))) {
    SCOPED_TRACE(length);
    std::memset(world.b.memory.at(to.va), 0, to.length);
    ASSERT_EQ(world.b.receive(pair.b, ++id, {to.sge(64, length)}), 0);
    const SgEntry sge = from.sge(0, length);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, id, {&sge, 1})), 0);
    const Completion sent = world.completions(world.a, 1)[0];
    EXPECT_EQ(sent.status, WcStatus::success);
    EXPECT_EQ(sent.opcode, WcOpcode::send);
    EXPECT_EQ(sent.wr_id, id);
    EXPECT_EQ(sent.qp_num, pair.a->qpn().value());
    const Completion received = world.completions(world.b, 1)[0];
    EXPECT_EQ(received.status, WcStatus::success);
    EXPECT_EQ(received.opcode, WcOpcode::recv);
    EXPECT_EQ(received.byte_len, length);
    EXPECT_EQ(received.wr_id, id);
    EXPECT_EQ(received.qp_num, pair.b->qpn().value());
    EXPECT_EQ(received.src_qp, pair.a->qpn().value());
    EXPECT_EQ(received.flags, 0);
    EXPECT_TRUE(world.b.memory.holds(to.va + 64, length, 1));
    EXPECT_TRUE(world.b.memory.is_zero(to.va, 64));
    EXPECT_TRUE(world.b.memory.is_zero(to.va + 64 + length, 64));
  }
}

TEST_P(RcMessages, write_and_read_move_every_length_both_ways) {
  World world;
  QpOptions options;
  options.mtu = GetParam();
  const Pair pair = world.connect(options);
  const Region local = world.a.region(1 << 17);
  const Region remote = world.b.region(1 << 17);
  uint64_t seed = 0;
  for (const uint32_t length : interesting_lengths(engine::bytes_of(GetParam()))) {
    SCOPED_TRACE(length);
    world.a.memory.fill(local.va, length, ++seed);
    const SgEntry out = local.sge(0, length);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&out, 1}, remote.va + 8, remote.key)), 0);
    const Completion written = world.completions(world.a, 1)[0];
    EXPECT_EQ(written.status, WcStatus::success);
    EXPECT_EQ(written.opcode, WcOpcode::rdma_write);
    EXPECT_TRUE(world.b.memory.holds(remote.va + 8, length, seed));

    world.b.memory.fill(remote.va + 8, length, ++seed);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, 2, {&out, 1}, remote.va + 8, remote.key)), 0);
    const Completion read = world.completions(world.a, 1)[0];
    EXPECT_EQ(read.status, WcStatus::success);
    EXPECT_EQ(read.opcode, WcOpcode::rdma_read);
    EXPECT_EQ(read.byte_len, length);
    EXPECT_TRUE(world.a.memory.holds(local.va, length, seed));
  }
  EXPECT_TRUE(world.b.poll().empty());
}

INSTANTIATE_TEST_SUITE_P(Mtu, RcMessages,
                         ::testing::Values(PathMtu::mtu_256, PathMtu::mtu_512, PathMtu::mtu_1024,
                                           PathMtu::mtu_2048, PathMtu::mtu_4096));

}  // namespace
}  // namespace uroce::test
