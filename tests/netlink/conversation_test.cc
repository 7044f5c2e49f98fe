// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/netlink/rdma_fixture.h"

namespace uroce::netlink {
namespace {

class ConversationTest : public RdmaCommands {};

TEST_F(ConversationTest, unknown_commands_and_clients_get_the_kernels_errno) {
  EXPECT_EQ(error(RequestBytes(0)), EINVAL);
  EXPECT_EQ(error(RequestBytes(8)), EINVAL) << "a number the kernel leaves free";
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_NUM_OPS + 5)), EINVAL);
  for (const unsigned client : {1u, 2u, 3u, 4u, 6u, 63u}) {
    EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_GET, 0, 77, client)), EINVAL) << client;
  }
}

TEST_F(ConversationTest, command_that_cannot_dump_says_so) {
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_SYS_GET, NLM_F_DUMP)), EINVAL);
}

TEST_F(ConversationTest, acknowledgement_follows_the_data) {
  const auto messages =
      exchange(RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_FALSE(messages[0].is_ack());
  EXPECT_TRUE(messages[1].is_ack());
  EXPECT_EQ(messages[1].error(), 0);
  EXPECT_EQ(messages[1].payload.size(), sizeof(nlmsgerr));
}

TEST_F(ConversationTest, dump_is_not_acknowledged_but_done) {
  const auto messages = exchange(RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK));
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_TRUE(messages[2].is_done());
}

TEST_F(ConversationTest, what_is_no_request_is_only_acknowledged) {
  auto request = RequestBytes(RDMA_NLDEV_CMD_GET);
  auto bytes = Bytes(request.bytes().begin(), request.bytes().end());
  bytes[6] = 0;  // flags: no NLM_F_REQUEST
  conversation_.on_datagram(bytes, true);
  EXPECT_EQ(conversation_.next(), nullptr);
  bytes[6] = NLM_F_ACK;
  conversation_.on_datagram(bytes, true);
  ASSERT_NE(conversation_.next(), nullptr);
  EXPECT_EQ(messages_in(*conversation_.next())[0].error(), 0);
}

TEST_F(ConversationTest, bad_attribute_is_named_by_its_offset) {
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_GET)
                      .u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
                      .raw(RDMA_NLDEV_ATTR_DEV_INDEX, "ab", 2)),
            EINVAL);
  EXPECT_NE(explanation_, "");
  EXPECT_EQ(messages_[0].ack_attributes().number(NLMSGERR_ATTR_OFFS), sizeof(nlmsghdr) + 8);
}

TEST_F(ConversationTest, text_without_an_end_is_refused) {
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_GET_CHARDEV).raw(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs", 6)),
            EINVAL);
  EXPECT_NE(explanation_.find("no end"), std::string::npos);
}

TEST_F(ConversationTest, unknown_attributes_are_skipped) {
  const Message& message = answer(
      RequestBytes(RDMA_NLDEV_CMD_GET).u32(900, 1).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst).text(0, "pad"));
  EXPECT_EQ(message.attributes().text(RDMA_NLDEV_ATTR_DEV_NAME), "ur0");
}

TEST_F(ConversationTest, two_requests_in_one_datagram) {
  const auto one = RequestBytes(RDMA_NLDEV_CMD_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  Bytes both(one.bytes().begin(), one.bytes().end());
  both.insert(both.end(), one.bytes().begin(), one.bytes().end());
  conversation_.on_datagram(both, true);
  int count = 0;
  for (; conversation_.next() != nullptr; conversation_.sent()) count++;
  EXPECT_EQ(count, 2);
}

TEST_F(ConversationTest, second_dump_is_busy_until_the_first_is_over) {
  model_.mrs_.assign(20'000, {31, 1, 11, 100, 0, 1});
  const auto request =
      RequestBytes(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  conversation_.on_datagram(request.bytes(), true);
  conversation_.on_datagram(request.bytes(), true);
  int busy = 0, done = 0;
  for (; conversation_.next() != nullptr; conversation_.sent()) {
    for (const Message& message : messages_in(*conversation_.next())) {
      if (message.is_ack()) busy += message.error() == EBUSY;
      if (message.is_done()) done++;
    }
  }
  EXPECT_EQ(busy, 1);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP)), 0);
}

TEST_F(ConversationTest, objects_that_go_between_pages_do_not_confuse_the_dump) {
  model_.mrs_.assign(20'000, {31, 1, 11, 100, 0, 1});
  conversation_.on_datagram(
      RequestBytes(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst).bytes(),
      true);
  model_.mrs_.clear();
  model_.devices_.clear();
  int error = -1;
  for (; conversation_.next() != nullptr; conversation_.sent()) {
    for (const Message& message : messages_in(*conversation_.next())) {
      if (message.is_done()) error = message.error();
    }
  }
  EXPECT_EQ(error, EINVAL) << "the device is gone";
}

TEST_F(ConversationTest, what_waits_for_a_client_that_does_not_read_is_bounded) {
  const auto request = RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  for (int i = 0; i < 10'000; ++i) conversation_.on_datagram(request.bytes(), true);
  int count = 0, last_error = 0;
  for (; conversation_.next() != nullptr && count < 20'000; conversation_.sent()) {
    const auto messages = messages_in(*conversation_.next());
    if (messages.back().is_ack()) last_error = messages.back().error();
    count++;
  }
  EXPECT_LT(count, 400);
  EXPECT_EQ(last_error, ECONNABORTED);
}

}  // namespace
}  // namespace uroce::netlink
