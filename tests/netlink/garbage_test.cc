// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Random and mutated messages: whatever comes in, what goes out is well formed and bounded. The sanitizers
// watch.
#include <random>

#include "tests/netlink/rdma_fixture.h"

namespace uroce::netlink {
namespace {

constexpr int kRounds = 20'000;

class Garbage : public ::testing::Test {
 protected:
  void feed(const Bytes& datagram, bool administrator) {
    Conversation conversation(model_, kClientPort);
    conversation.on_datagram(datagram, administrator);
    size_t count = 0;
    for (; conversation.next() != nullptr; conversation.sent()) {
      ASSERT_LE(conversation.next()->size(), 4096u);
      ASSERT_FALSE(messages_in(*conversation.next()).empty());
      ASSERT_LT(++count, 2'000u);
    }
  }

  uint32_t up_to(uint32_t most) { return std::uniform_int_distribution<uint32_t>(0, most)(random_); }

  FakeModel model_;
  std::mt19937 random_{20261201};
};

Bytes valid_request(uint32_t choice, uint32_t command, unsigned flags) {
  RequestBytes request(command, flags);
  request.u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  if ((choice & 1) != 0) request.u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
  if ((choice & 2) != 0) request.text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs");
  if ((choice & 4) != 0) request.u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
  if ((choice & 8) != 0) request.u32(RDMA_NLDEV_ATTR_STAT_MODE, 1);
  if ((choice & 16) != 0)
    request.text(RDMA_NLDEV_ATTR_DEV_NAME, "ur7").text(RDMA_NLDEV_ATTR_LINK_TYPE, "uroce");
  if ((choice & 32) != 0) request.text(RDMA_NLDEV_ATTR_NDEV_NAME, "eth0");
  if ((choice & 64) != 0) request.u32(RDMA_NLDEV_ATTR_RES_LQPN, 0x4011).u32(RDMA_NLDEV_ATTR_RES_MRN, 31);
  return {request.bytes().begin(), request.bytes().end()};
}

TEST_F(Garbage, random_bytes) {
  for (int round = 0; round < kRounds; ++round) {
    Bytes datagram(up_to(200));
    for (uint8_t& byte : datagram) byte = static_cast<uint8_t>(random_());
    feed(datagram, round % 2 == 0);
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

TEST_F(Garbage, valid_messages_with_some_bytes_changed) {
  for (int round = 0; round < kRounds; ++round) {
    const unsigned flags = up_to(1) * NLM_F_DUMP + up_to(1) * NLM_F_ACK;
    Bytes datagram = valid_request(random_(), up_to(RDMA_NLDEV_NUM_OPS), flags);
    for (uint32_t i = up_to(4); i > 0; --i) {
      datagram[up_to(static_cast<uint32_t>(datagram.size()) - 1)] = static_cast<uint8_t>(random_());
    }
    if (up_to(3) == 0) datagram.resize(up_to(static_cast<uint32_t>(datagram.size())));
    feed(datagram, round % 2 == 0);
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

TEST_F(Garbage, many_messages_in_one_datagram) {
  Bytes datagram;
  const Bytes one = valid_request(1, RDMA_NLDEV_CMD_GET, NLM_F_ACK);
  while (datagram.size() < 32'000) datagram.insert(datagram.end(), one.begin(), one.end());
  feed(datagram, true);
}

TEST_F(Garbage, shortest_messages) {
  for (size_t size = 0; size <= sizeof(nlmsghdr) + 8; ++size) {
    feed(Bytes(size, 0), true);
    feed(Bytes(size, 0xff), true);
  }
}

}  // namespace
}  // namespace uroce::netlink
