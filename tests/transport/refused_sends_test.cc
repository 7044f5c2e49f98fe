// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Sends that the kernel refuses, as it does where this machine would not: no segmentation on that netdev, no
// buffer.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <vector>

#include "provider/transport/udp.h"

namespace {

int refuse_segmented = 0;  // errno for sends with UDP_SEGMENT; 0: none
int refuse_any = 0;        // how many sends find no buffer

bool is_segmented(const msghdr& message) {
  auto* m = const_cast<msghdr*>(&message);
  for (cmsghdr* c = CMSG_FIRSTHDR(m); c != nullptr; c = CMSG_NXTHDR(m, c))
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT) return true;
  return false;
}

}  // namespace

// The transport's way into the kernel; all of this program's calls pass here.
extern "C" __attribute__((visibility("default"))) long syscall(long number, ...) {
  using Call = long (*)(long, long, long, long, long, long, long);
  static const auto real = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_sendmmsg) {
    const auto* messages = reinterpret_cast<const mmsghdr*>(a[1]);
    if (refuse_segmented != 0 && is_segmented(messages[0].msg_hdr)) {
      errno = refuse_segmented;
      return -1;
    }
    if (refuse_any > 0) {
      --refuse_any;
      errno = EAGAIN;
      return -1;
    }
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

namespace uroce::transport {
namespace {

class Count : public PacketSink {
 public:
  void on_packet(std::span<const std::byte> packet, const engine::RxMeta&) override {
    ++packets;
    bytes += packet.size();
  }
  size_t packets = 0, bytes = 0;
};

class RefusedSends : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i) group_.push_back(open_receive_socket(true, 1 << 20));
    ASSERT_GE(group_[2], 0);
    ASSERT_TRUE(attach_slot_steering(group_[0], 3));
    a_ = open(1);
    b_ = open(2);
    engine::Path path;
    path.source = path.destination = wire::Gid::from_ipv4_be(htonl(INADDR_LOOPBACK));
    id_ = a_->intern(path);
  }
  void TearDown() override {
    refuse_segmented = refuse_any = 0;
    for (int fd : group_) close(fd);
  }

  std::unique_ptr<Transport> open(uint32_t slot) {
    UdpConfig config;
    config.receive_socket = dup(group_[slot]);
    config.slot = slot;
    std::string why;
    return make_udp_transport(config, why);
  }

  void add(size_t payload) {
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::rc_send_only;
    packet.bth.dest_qpn = wire::Qpn::of(2, 1);
    std::byte* out = batch_.reserve(payload + 64);
    const size_t headers = wire::write_headers(packet, out);
    batch_.commit(id_, packet.bth.dest_qpn, headers + payload);
  }

  // Only what passes its ICRC arrives.
  size_t arrived(size_t expected) {
    Count count;
    while (count.packets < expected) {
      pollfd p{b_->wait_descriptor(), POLLIN, 0};
      if (poll(&p, 1, 5000) != 1) break;
      b_->receive(count);
    }
    while (b_->receive(count) > 0) {
    }
    return count.packets;
  }

  std::vector<int> group_;
  std::unique_ptr<Transport> a_, b_;
  engine::PathId id_;
  std::vector<std::byte> storage_ = std::vector<std::byte>(64 << 10);
  engine::TxBatch batch_{storage_};
};

TEST_F(RefusedSends, segmentation_refused__single_sends_for_good_and_it_is_told) {
  for (const int error : {EINVAL, EIO}) {
    SCOPED_TRACE(error);
    a_ = open(1);
    engine::Path path;
    path.source = path.destination = wire::Gid::from_ipv4_be(htonl(INADDR_LOOPBACK));
    id_ = a_->intern(path);
    refuse_segmented = error;
    const uint32_t before = a_->description();
    batch_.clear();
    for (int i = 0; i < 20; ++i) add(256);
    EXPECT_EQ(a_->send(batch_, 0), 20u);
    EXPECT_EQ(arrived(20), 20u);
    EXPECT_NE(a_->description(), before);
    EXPECT_NE(a_->describe().find("GSO refused towards 127.0.0.1"), std::string::npos) << a_->describe();
    refuse_segmented = 0;
    const uint64_t calls = a_->counters().sent_calls;
    batch_.clear();
    for (int i = 0; i < 10; ++i) add(256);
    EXPECT_EQ(a_->send(batch_, 0), 10u);
    EXPECT_EQ(arrived(10), 10u);
    EXPECT_EQ(a_->counters().sent_packets, 30u);
    EXPECT_EQ(a_->counters().sent_calls, calls + 1) << "ten messages, one call";
  }
}

TEST_F(RefusedSends, no_buffer__the_rest_stays_and_leaves_later) {
  refuse_any = 1;
  for (int i = 0; i < 5; ++i) add(64);
  EXPECT_EQ(a_->send(batch_, 0), 0u);
  EXPECT_EQ(a_->counters().sent_packets, 0u);
  EXPECT_EQ(a_->send(batch_, 0), 5u);
  EXPECT_EQ(arrived(5), 5u);
  for (uint64_t dropped : a_->counters().drops) EXPECT_EQ(dropped, 0u);
}

}  // namespace
}  // namespace uroce::transport
