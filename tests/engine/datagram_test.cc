// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// UD: the area in front of the data, Q_Keys, multicast, what is dropped.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

struct Ud : ::testing::Test {
  Ud()
      : from(world.datagram_qp(world.a)),
        to(world.datagram_qp(world.b)),
        data(world.a.region(8192)),
        buffer(world.b.region(8192)) {
    world.a.memory.fill(data.va, data.length, 1);
  }
  SendRequest datagram(uint64_t id, std::span<const SgEntry> sges = {}) {
    SendRequest r = request(WrOpcode::send, id, sges);
    r.ud_path = PathId{2};
    r.ud_qpn = to->qpn();
    r.ud_qkey = 0x11111111;
    return r;
  }
  World world;
  QueuePair* from;
  QueuePair* to;
  Region data;
  Region buffer;
};

TEST_F(Ud, data_stands_behind_forty_bytes_whose_ipv4_header_is_at_twenty) {
  std::memset(world.b.memory.at(buffer.va), 0xff, 200);
  ASSERT_EQ(world.b.receive(to, 5, {buffer.sge()}), 0);
  const SgEntry sge = data.sge(0, 101);
  SendRequest r = datagram(1, {&sge, 1});
  r.opcode = WrOpcode::send_imm;
  r.imm_be = 0xaabbccdd;
  ASSERT_EQ(world.a.post(from, r), 0);
  const Completion sent = world.completions(world.a, 1)[0];
  EXPECT_EQ(sent.status, WcStatus::success);
  const Completion received = world.completions(world.b, 1)[0];
  EXPECT_EQ(received.byte_len, 141u);
  EXPECT_EQ(received.flags, Completion::kGrh | Completion::kWithImm);
  EXPECT_EQ(received.imm_or_rkey, 0xaabbccddu);
  EXPECT_EQ(received.src_qp, from->qpn().value());
  EXPECT_EQ(received.qp_num, to->qpn().value());
  EXPECT_TRUE(world.b.memory.holds(buffer.va + 40, 101, 1));
  const std::byte* area = world.b.memory.at(buffer.va);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(area[i], std::byte{0xff});
  EXPECT_EQ(area[20], std::byte{0x45});
  EXPECT_EQ(std::memcmp(area + 32, world.a.gid.raw.data() + 12, 4), 0);
  EXPECT_EQ(std::memcmp(area + 36, world.b.gid.raw.data() + 12, 4), 0);
  uint32_t sum = 0;  // a header with a right checksum adds up to ones
  for (int i = 20; i < 40; i += 2)
    sum += static_cast<uint32_t>(area[i]) << 8 | static_cast<uint32_t>(area[i + 1]);
  EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);
  EXPECT_EQ(area[40 + 101], std::byte{0xff});
}

TEST_F(Ud, empty_datagram) {
  ASSERT_EQ(world.b.receive(to, 5, {buffer.sge(0, 40)}), 0);
  ASSERT_EQ(world.a.post(from, datagram(1)), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].byte_len, 40u);
}

TEST_F(Ud, sixteen_bytes_of_ipv6_addresses_fill_the_area) {
  ASSERT_EQ(world.b.receive(to, 5, {buffer.sge()}), 0);
  ASSERT_EQ(world.a.post(from, datagram(1)), 0);
  const auto frames = world.outgoing(world.a);
  ASSERT_EQ(frames.size(), 1u);
  engine::RxMeta meta;
  meta.source.raw[0] = meta.destination.raw[0] = 0x20;
  meta.source.raw[15] = 1;
  meta.destination.raw[15] = 2;
  world.b.engine.on_packet(world.now(), frames[0].bytes, meta);
  ASSERT_EQ(world.b.poll().size(), 1u);
  const std::byte* area = world.b.memory.at(buffer.va);
  EXPECT_EQ(area[0] >> 4, std::byte{6});
  EXPECT_EQ(std::memcmp(area + 8, meta.source.raw.data(), 16), 0);
  EXPECT_EQ(std::memcmp(area + 24, meta.destination.raw.data(), 16), 0);
}

TEST_F(Ud, wrong_qkey_vanishes_and_the_receive_stays) {
  ASSERT_EQ(world.b.receive(to, 5, {buffer.sge()}), 0);
  SendRequest r = datagram(1);
  r.ud_qkey = 0x11111112;
  ASSERT_EQ(world.a.post(from, r), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  EXPECT_TRUE(world.b.poll().empty());
  EXPECT_EQ(world.b.drops(engine::PacketDrop::bad_qkey), 1u);
  ASSERT_EQ(world.a.post(from, datagram(2)), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].wr_id, 5u);
}

TEST_F(Ud, a_qkey_with_the_top_bit_means_the_queue_pairs_own) {
  ASSERT_EQ(world.b.receive(to, 5, {buffer.sge()}), 0);
  SendRequest r = datagram(1);
  r.ud_qkey = 0x80000000;
  ASSERT_EQ(world.a.post(from, r), 0);
  EXPECT_EQ(world.completions(world.b, 1).size(), 1u);
}

TEST_F(Ud, without_a_receive_it_is_dropped) {
  ASSERT_EQ(world.a.post(from, datagram(1)), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  EXPECT_EQ(world.b.drops(engine::PacketDrop::no_receive), 1u);
}

TEST_F(Ud, a_receive_that_is_too_small_is_kept_and_nothing_is_written) {
  ASSERT_EQ(world.b.receive(to, 5, {buffer.sge(0, 140)}), 0);
  const SgEntry big = data.sge(0, 101);
  const SgEntry fits = data.sge(0, 100);
  ASSERT_EQ(world.a.post(from, datagram(1, {&big, 1})), 0);
  world.exchange();
  EXPECT_EQ(world.b.drops(engine::PacketDrop::receive_too_small), 1u);
  EXPECT_TRUE(world.b.memory.is_zero(buffer.va, 200));
  ASSERT_EQ(world.a.post(from, datagram(2, {&fits, 1})), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].byte_len, 140u);
}

TEST_F(Ud, longer_than_the_ports_mtu_is_refused_at_post) {
  const SgEntry fits = data.sge(0, 4096);
  const SgEntry more = data.sge(0, 4097);
  EXPECT_EQ(world.a.post(from, datagram(1, {&more, 1})), EINVAL);
  EXPECT_EQ(world.a.post(from, datagram(1, {&fits, 1})), 0);
  world.a.engine.set_port_mtu(PathMtu::mtu_1024);
  EXPECT_EQ(world.a.post(from, datagram(1, {&fits, 1})), EINVAL);
  SendRequest nowhere = datagram(1);
  nowhere.ud_path = {};
  EXPECT_EQ(world.a.post(from, nowhere), EINVAL);
}

TEST_F(Ud, multicast_reaches_every_attached_queue_pair_once) {
  wire::Gid group;
  group.raw[10] = group.raw[11] = 0xff;
  group.raw[12] = 239;
  group.raw[15] = 7;
  QueuePair* second = world.datagram_qp(world.b);
  QueuePair* outsider = world.datagram_qp(world.b);
  EXPECT_EQ(world.b.engine.attach_multicast(to, group), 0);
  EXPECT_EQ(world.b.engine.attach_multicast(to, group), 0);
  EXPECT_EQ(world.b.engine.attach_multicast(second, group), 0);
  EXPECT_EQ(world.b.engine.attach_multicast(to, world.b.gid), EINVAL);
  for (QueuePair* qp : {to, second, outsider})
    ASSERT_EQ(world.b.receive(qp, qp->qpn().value(), {buffer.sge()}), 0);
  SendRequest r = datagram(1);
  r.ud_qpn = Qpn(Qpn::kMulticast);
  r.ud_multicast = true;
  ASSERT_EQ(world.a.post(from, r), 0);
  const auto frames = world.outgoing(world.a);
  ASSERT_EQ(frames.size(), 1u);
  engine::RxMeta meta;
  meta.source = world.a.gid;
  meta.destination = group;
  world.b.engine.on_packet(world.now(), frames[0].bytes, meta);
  const auto received = world.b.poll();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].wr_id, to->qpn().value());
  EXPECT_EQ(received[1].wr_id, second->qpn().value());
  meta.destination.raw[15] = 8;
  world.b.engine.on_packet(world.now(), frames[0].bytes, meta);
  EXPECT_EQ(world.b.drops(engine::PacketDrop::multicast_not_member), 1u);

  EXPECT_EQ(world.b.engine.destroy_qp(world.now(), to), EBUSY);
  EXPECT_EQ(world.b.engine.detach_multicast(to, group), 0);
  EXPECT_EQ(world.b.engine.detach_multicast(to, group), EINVAL);
  EXPECT_EQ(world.b.engine.destroy_qp(world.now(), to), 0);
}

TEST_F(Ud, a_receive_whose_key_is_bad_ends_the_queue_pair_with_its_completion) {
  ASSERT_EQ(world.b.receive(to, 5, {SgEntry{buffer.va, 200, 0xbad00}}), 0);
  ASSERT_EQ(world.a.post(from, datagram(1)), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].status, WcStatus::local_protection_error);
  EXPECT_EQ(to->state(), QpState::error);
}

}  // namespace
}  // namespace uroce::test
