// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "provider/wire/icrc.h"

namespace uroce::transport {
namespace {

using engine::PathId;
using wire::Gid;
using wire::Qpn;

const Gid kLoopback4 = Gid::from_ipv4_be(htonl(INADDR_LOOPBACK));
Gid loopback6() {
  Gid g;
  g.raw[15] = 1;
  return g;
}

struct Got {
  std::vector<std::byte> bytes;
  engine::RxMeta meta;
};

class Collector : public PacketSink {
 public:
  void on_packet(std::span<const std::byte> packet, const engine::RxMeta& meta) override {
    got.push_back({{packet.begin(), packet.end()}, meta});
  }
  std::vector<Got> got;
};

// The group of slots 0 to 3 on port 4791, and a transport for two of them.
class Udp : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 4; ++i) {
      const int fd = open_receive_socket(true, 4 << 20);
      ASSERT_GE(fd, 0) << strerror(errno);
      group_.push_back(fd);
    }
    ASSERT_TRUE(attach_slot_steering(group_[0], 4));
  }
  void TearDown() override {
    for (int fd : group_) close(fd);
  }

  std::unique_ptr<Transport> open(uint32_t slot, UdpConfig config = {}) {
    config.receive_socket = dup(group_[slot]);
    config.slot = slot;
    std::string why;
    auto transport = make_udp_transport(config, why);
    EXPECT_NE(transport, nullptr) << why;
    return transport;
  }

  static engine::Path path(bool ipv4) {
    engine::Path p;
    p.source = p.destination = ipv4 ? kLoopback4 : loopback6();
    return p;
  }

  void add(PathId id, Qpn qpn, size_t payload, uint8_t mark) {
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::rc_send_only;
    packet.bth.dest_qpn = qpn;
    packet.bth.psn = wire::Psn(mark);
    std::byte* out = batch_.reserve(payload + 64);
    ASSERT_NE(out, nullptr);
    const size_t headers = wire::write_headers(packet, out);
    std::memset(out + headers, mark, payload);
    batch_.commit(id, qpn, headers + payload);
  }

  static void receive_all(Transport& transport, Collector& sink, size_t expected) {
    while (sink.got.size() < expected) {
      pollfd p{transport.wait_descriptor(), POLLIN, 0};
      if (poll(&p, 1, 5000) <= 0) break;
      transport.receive(sink);
    }
    while (transport.receive(sink) > 0) {
    }
  }

  uint64_t drops(const Transport& t, Drop reason) { return t.counters().drops[static_cast<size_t>(reason)]; }

  std::vector<int> group_;
  std::vector<std::byte> storage_ = std::vector<std::byte>(256 << 10);
  engine::TxBatch batch_{storage_};
};

TEST_F(Udp, packets_arrive_whole_in_order_with_their_meta) {
  for (const bool ipv4 : {true, false}) {
    auto a = open(1), b = open(2);
    engine::Path p = path(ipv4);
    p.traffic_class = 0x68;
    p.hop_limit = 9;
    const PathId id = a->intern(p);
    ASSERT_NE(id.value, 0u) << strerror(errno);
    batch_.clear();
    for (uint8_t i = 0; i < 100; ++i) add(id, Qpn::of(2, 5), 4u * i, i);
    ASSERT_EQ(a->send(batch_, 0), 100u);
    Collector sink;
    receive_all(*b, sink, 100);
    ASSERT_EQ(sink.got.size(), 100u);
    for (uint8_t i = 0; i < 100; ++i) {
      const Got& got = sink.got[i];
      ASSERT_EQ(got.bytes.size(), 12u + 4u * i);
      EXPECT_EQ(got.bytes.back(), i == 0 ? got.bytes[11] : std::byte{i});
      EXPECT_EQ(got.meta.source, p.source);
      EXPECT_EQ(got.meta.destination, p.destination);
      EXPECT_EQ(got.meta.traffic_class, 0x68);
      EXPECT_EQ(got.meta.hop_limit, 9);
      EXPECT_EQ(got.meta.ifindex, 1u);
    }
    EXPECT_EQ(a->counters().sent_packets, 100u);
    EXPECT_EQ(b->counters().received_packets, 100u);
  }
}

TEST_F(Udp, a_run_of_equal_packets_is_one_call) {
  auto a = open(1), b = open(2);
  const PathId id = a->intern(path(true));
  // The shape of a 64 KiB WRITE at path MTU 1024: FIRST is longer, LAST as the MIDDLEs.
  add(id, Qpn::of(2, 5), 1024 + 16, 0);
  for (uint8_t i = 1; i < 64; ++i) add(id, Qpn::of(2, 5), 1024, i);
  ASSERT_EQ(a->send(batch_, 0), 64u);
  EXPECT_EQ(a->counters().sent_calls, 1u);
  Collector sink;
  receive_all(*b, sink, 64);
  ASSERT_EQ(sink.got.size(), 64u);
  EXPECT_LE(b->counters().received_calls, 4u);
  EXPECT_EQ(a->describe().substr(0, 24), "udp, GSO 64 segments, GR");
}

TEST_F(Udp, without_offloads_every_packet_is_its_own_and_still_arrives) {
  UdpConfig config;
  config.segmentation = config.coalescing = false;
  auto a = open(1, config), b = open(2, config);
  const PathId id = a->intern(path(false));
  for (uint8_t i = 0; i < 40; ++i) add(id, Qpn::of(2, 5), 1024, i);
  ASSERT_EQ(a->send(batch_, 0), 40u);
  Collector sink;
  receive_all(*b, sink, 40);
  EXPECT_EQ(sink.got.size(), 40u);
  EXPECT_EQ(b->counters().received_calls, 40u);
  EXPECT_NE(a->describe().find("GSO off"), std::string::npos);
}

TEST_F(Udp, segments_of_another_slot_are_handed_on) {
  std::map<uint32_t, int> handed;
  UdpConfig config;
  config.send_sockets = 1;  // one source port for every slot, as foreign peers have
  auto a = open(1, config);
  UdpConfig receiving;
  receiving.other_slot = [&](std::span<const std::byte> packet, const engine::RxMeta&, uint32_t slot) {
    EXPECT_EQ(packet.size(), 12u + 64u);
    ++handed[slot];
    return slot == 3;
  };
  auto b = open(2, receiving);
  const PathId id = a->intern(path(true));
  // One segmented send whose first segment decides where all of it arrives.
  for (uint8_t i = 0; i < 4; ++i) add(id, Qpn::of(2, 5), 64, i);
  for (uint8_t i = 0; i < 2; ++i) add(id, Qpn::of(3, 5), 64, i);
  add(id, Qpn::of(900, 5), 64, 0);
  ASSERT_EQ(a->send(batch_, 0), 7u);
  Collector sink;
  receive_all(*b, sink, 4);
  EXPECT_EQ(sink.got.size(), 4u);
  EXPECT_EQ(handed[3], 2);
  EXPECT_EQ(handed[900], 1);
  EXPECT_EQ(drops(*b, Drop::other_slot), 2u);
  EXPECT_EQ(drops(*b, Drop::other_slot_lost), 1u);
}

TEST_F(Udp, garbage_is_counted_and_goes_no_further) {
  auto b = open(0);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (size_t size : {0u, 1u, 15u, 16u, 64u, 5000u, 65000u}) {
    std::vector<char> bytes(size, 'x');
    ASSERT_EQ(sendto(fd, bytes.data(), size, 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(size));
  }
  close(fd);
  Collector sink;
  for (int i = 0; i < 7; ++i) b->receive(sink);
  EXPECT_TRUE(sink.got.empty());
  // "xxxx" names slot 481, which is nobody's: all of it ends in slot 0.
  EXPECT_EQ(drops(*b, Drop::too_short) + drops(*b, Drop::bad_icrc),
            6u + (drops(*b, Drop::too_short) > 2 ? 1 : 0));
  EXPECT_EQ(drops(*b, Drop::bad_icrc), 4u);
}

// NICs send RoCEv2 over IPv6 with UDP checksum 0.
TEST_F(Udp, checksum_zero_over_ipv6_is_accepted) {
  auto b = open(2);
  const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ASSERT_EQ(setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &on, sizeof on), 0);
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_addr = in6addr_loopback;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  socklen_t length = sizeof to;
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&to), &length), 0);
  const uint16_t port = ntohs(to.sin6_port);
  std::byte bytes[32] = {};
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::rc_send_only;
  packet.bth.dest_qpn = Qpn::of(2, 1);
  const size_t n = wire::write_headers(packet, bytes);
  wire::store_icrc(bytes + n, wire::IcrcFlow(loopback6(), loopback6(), port, 4791).compute({bytes, n}, 0));
  to.sin6_port = htons(4791);
  ASSERT_GT(sendto(fd, bytes, n + 4, 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  close(fd);
  Collector sink;
  receive_all(*b, sink, 1);
  EXPECT_EQ(sink.got.size(), 1u);
}

TEST_F(Udp, sends_that_cannot_leave_are_counted_drops) {
  auto a = open(1);
  engine::Path nowhere;
  nowhere.source = kLoopback4;
  nowhere.destination = Gid::from_ipv4_be(htonl(0xc6336401));  // 198.51.100.1: no route here
  const PathId id = a->intern(nowhere);
  ASSERT_NE(id.value, 0u);
  add(id, Qpn::of(2, 5), 64, 0);
  EXPECT_EQ(a->send(batch_, 0), 1u);
  EXPECT_EQ(drops(*a, Drop::send_unreachable) + drops(*a, Drop::send_failed), 1u);

  engine::Path foreign = path(true);
  foreign.source = Gid::from_ipv4_be(htonl(0x0a090807));  // not an address of ours
  const PathId bad = a->intern(foreign);
  batch_.clear();
  add(bad, Qpn::of(2, 5), 64, 0);
  EXPECT_EQ(a->send(batch_, 0), 1u);
  EXPECT_EQ(drops(*a, Drop::send_unreachable) + drops(*a, Drop::send_failed), 2u);
}

TEST_F(Udp, a_released_path_sends_nothing) {
  auto a = open(1), b = open(2);
  const PathId keep = a->intern(path(true));
  const PathId gone = a->intern(path(false));
  a->release(gone);
  add(keep, Qpn::of(2, 5), 64, 0);
  add(gone, Qpn::of(2, 5), 64, 1);
  add(keep, Qpn::of(2, 5), 64, 2);
  EXPECT_EQ(a->send(batch_, 0), 3u);
  Collector sink;
  receive_all(*b, sink, 2);
  EXPECT_EQ(sink.got.size(), 2u);
}

TEST_F(Udp, the_receive_buffer_is_the_kernels_figure) {
  auto a = open(1);
  const int wanted = 300'000;
  ASSERT_EQ(setsockopt(group_[1], SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted), 0);
  EXPECT_EQ(a->receive_buffer(), 600'000u);
}

TEST_F(Udp, a_group_reaches_members_only) {
  auto a = open(1), b = open(2), c = open(3);
  const uint32_t netdev = if_nametoindex("d0");
  for (const bool ipv4 : {true, false}) {
    Gid group;
    if (ipv4) {
      group = Gid::from_ipv4_be(htonl(0xe0010203));
    } else {
      group.raw = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77};
    }
    ASSERT_EQ(b->join_group(group, netdev), 0);
    ASSERT_EQ(b->join_group(group, netdev), 0);
    ASSERT_EQ(b->leave_group(group, netdev), 0);  // counted: still a member
    engine::Path p;
    p.source = ipv4 ? Gid::from_ipv4_be(htonl(0xc0000201))
                    : Gid{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    p.destination = group;
    p.ifindex = netdev;
    const PathId id = a->intern(p);
    batch_.clear();
    add(id, Qpn(Qpn::kMulticast), 64, 7);
    ASSERT_EQ(a->send(batch_, 0), 1u);
    Collector member, other;
    receive_all(*b, member, 1);
    while (c->receive(other) > 0) {
    }
    ASSERT_EQ(member.got.size(), 1u) << ipv4;
    EXPECT_EQ(member.got[0].meta.destination, group);
    EXPECT_TRUE(other.got.empty());
    EXPECT_EQ(b->leave_group(group, netdev), 0);
    EXPECT_EQ(b->leave_group(group, netdev), EADDRNOTAVAIL);
  }
}

// From another host: the kernel looks for a lone receiver before it delivers to all, and would give the
// packet to whom the steering names instead.
TEST_F(Udp, a_group_with_one_member_reaches_it_from_outside) {
  ASSERT_TRUE(hear_all_groups(group_[0], true));  // as uroced has it
  auto a = open(1), b = open(2);
  for (const bool ipv4 : {true, false}) {
    Gid group = Gid::from_ipv4_be(htonl(0xe0010203));
    if (!ipv4) group.raw = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77};
    ASSERT_EQ(b->join_group(group, if_nametoindex("d0")), 0);
    engine::Path p;
    p.source = ipv4 ? Gid::from_ipv4_be(htonl(0xc0000202))
                    : Gid{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
    p.destination = group;
    p.ifindex = if_nametoindex("d1");
    batch_.clear();
    add(a->intern(p), Qpn(Qpn::kMulticast), 64, 7);
    ASSERT_EQ(a->send(batch_, 0), 1u);
    Collector member;
    receive_all(*b, member, 1);
    ASSERT_EQ(member.got.size(), 1u) << ipv4;
    EXPECT_EQ(member.got[0].meta.ifindex, if_nametoindex("d0"));
  }
}

// The socket belongs to the slot, not to the process: what a process leaves behind when it is killed must not
// stay joined on it.
TEST_F(Udp, groups_are_not_joined_on_the_receive_socket) {
  const Gid group = Gid::from_ipv4_be(htonl(0xe0010204));
  ip_mreqn request{};
  request.imr_multiaddr.s_addr = group.ipv4_be();
  request.imr_ifindex = static_cast<int>(if_nametoindex("d0"));
  auto b = open(2);
  ASSERT_EQ(b->join_group(group, if_nametoindex("d0")), 0);
  EXPECT_EQ(setsockopt(group_[2], IPPROTO_IP, IP_DROP_MEMBERSHIP, &request, sizeof request), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  const auto hears = [&](int level, int option) {
    int value = -1;
    socklen_t length = sizeof value;
    getsockopt(group_[2], level, option, &value, &length);
    return value;
  };
  constexpr int kIpv6MulticastAll = 29;
  EXPECT_EQ(hears(IPPROTO_IP, IP_MULTICAST_ALL), 1);
  EXPECT_EQ(hears(IPPROTO_IPV6, kIpv6MulticastAll), 1);
  b.reset();
  EXPECT_EQ(hears(IPPROTO_IP, IP_MULTICAST_ALL), 0) << "who ends in order leaves the socket as it was";
  EXPECT_EQ(hears(IPPROTO_IPV6, kIpv6MulticastAll), 0);
}

TEST_F(Udp, a_hundred_groups_are_joined_and_left) {
  auto a = open(1);
  const uint32_t netdev = if_nametoindex("d0");
  const auto group = [](bool ipv4, uint32_t i) {
    if (ipv4) return Gid::from_ipv4_be(htonl(0xe0020000 + i));
    return Gid{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, static_cast<uint8_t>(i)}};
  };
  for (const bool ipv4 : {true, false}) {
    for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(a->join_group(group(ipv4, i), netdev), 0) << i;
    for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(a->leave_group(group(ipv4, i), netdev), 0) << i;
    for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(a->join_group(group(ipv4, i), netdev), 0) << "again " << i;
  }
}

TEST_F(Udp, a_group_that_cannot_be_joined_says_why) {
  auto a = open(1);
  EXPECT_EQ(a->join_group(Gid::from_ipv4_be(htonl(0xe0020000)), 0x7fffffff), ENODEV);
  int hears = -1;
  socklen_t length = sizeof hears;
  ASSERT_EQ(getsockopt(group_[1], IPPROTO_IP, IP_MULTICAST_ALL, &hears, &length), 0);
  EXPECT_EQ(hears, 0);
}

TEST_F(Udp, the_port_held_by_another_program_is_told) {
  for (int fd : group_) close(fd);
  group_.clear();
  const int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(4791);
  ASSERT_EQ(bind(other, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  EXPECT_EQ(open_receive_socket(true, 1 << 20), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  close(other);
}

TEST_F(Udp, a_descriptor_that_is_no_datagram_socket_is_refused) {
  UdpConfig config;
  config.receive_socket = -1;
  std::string why;
  EXPECT_EQ(make_udp_transport(config, why), nullptr);
  EXPECT_NE(why, "");
}

}  // namespace
}  // namespace uroce::transport
