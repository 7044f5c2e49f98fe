// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/netlink/rdma_fixture.h"

namespace uroce::netlink {
namespace {

class LinkCommands : public RdmaCommands {
 protected:
  static RequestBytes new_link() {
    return RequestBytes(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK)
        .text(RDMA_NLDEV_ATTR_DEV_NAME, "ur5")
        .text(RDMA_NLDEV_ATTR_LINK_TYPE, "uroce")
        .text(RDMA_NLDEV_ATTR_NDEV_NAME, "eth5");
  }
};

TEST_F(LinkCommands, new_link_reaches_the_daemon) {
  EXPECT_EQ(error(new_link()), 0);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_TRUE(messages_[0].is_ack());
  EXPECT_EQ(model_.told_, "new ur5 uroce eth5");
}

TEST_F(LinkCommands, errno_and_reason_come_back) {
  model_.error_ = ENODEV;
  model_.message_ = "there is no netdev 'eth5' in this network namespace";
  EXPECT_EQ(error(new_link()), ENODEV);
  EXPECT_EQ(explanation_, model_.message_);
}

TEST_F(LinkCommands, half_a_request_is_refused) {
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK).text(RDMA_NLDEV_ATTR_DEV_NAME, "ur5")),
            EINVAL);
  EXPECT_EQ(model_.told_, "");
}

TEST_F(LinkCommands, delete_link_by_index) {
  const auto request = [](uint32_t index) {
    return RequestBytes(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, index);
  };
  EXPECT_EQ(error(request(kSecond)), 0);
  EXPECT_EQ(model_.told_, "delete 9");
  model_.told_.clear();
  EXPECT_EQ(error(request(kNobody)), EINVAL);
  EXPECT_EQ(model_.told_, "");
}

TEST_F(LinkCommands, every_change_needs_an_administrator) {
  administrator_ = false;
  for (const unsigned command :
       {RDMA_NLDEV_CMD_SET, RDMA_NLDEV_CMD_NEWLINK, RDMA_NLDEV_CMD_DELLINK, RDMA_NLDEV_CMD_SYS_SET,
        RDMA_NLDEV_CMD_STAT_SET, RDMA_NLDEV_CMD_STAT_DEL, RDMA_NLDEV_CMD_RES_QP_GET_RAW,
        RDMA_NLDEV_CMD_RES_CQ_GET_RAW, RDMA_NLDEV_CMD_RES_MR_GET_RAW}) {
    EXPECT_EQ(error(RequestBytes(command, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)), EPERM)
        << command;
    EXPECT_NE(explanation_, "");
  }
  EXPECT_EQ(model_.told_, "");
}

TEST_F(LinkCommands, port_of_a_device) {
  const Message& message = answer(RequestBytes(RDMA_NLDEV_CMD_PORT_GET)
                                      .u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)
                                      .u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1));
  const AttributeList list = message.attributes();
  EXPECT_EQ(list.text(RDMA_NLDEV_ATTR_DEV_NAME), "ur0");
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_PORT_STATE), 4u);
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_PORT_PHYS_STATE), 5u);
  EXPECT_EQ(list.text(RDMA_NLDEV_ATTR_NDEV_NAME), "eth0");
  EXPECT_FALSE(list.has(RDMA_NLDEV_ATTR_LID)) << "InfiniBand only";
}

TEST_F(LinkCommands, port_errors) {
  const auto request = [] { return RequestBytes(RDMA_NLDEV_CMD_PORT_GET); };
  EXPECT_EQ(error(request().u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)), EINVAL);
  for (const uint32_t port : {0u, 2u, ~0u}) {
    EXPECT_EQ(error(request().u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst).u32(RDMA_NLDEV_ATTR_PORT_INDEX, port)),
              EINVAL);
  }
  EXPECT_EQ(error(request().u32(RDMA_NLDEV_ATTR_DEV_INDEX, kNobody).u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)),
            EINVAL);
}

TEST_F(LinkCommands, port_dump) {
  const auto& ports =
      dump(RequestBytes(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kSecond));
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].attributes().text(RDMA_NLDEV_ATTR_DEV_NAME), "ur1");
  EXPECT_FALSE(ports[0].attributes().has(RDMA_NLDEV_ATTR_NDEV_NAME));
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP)), EINVAL);
}

}  // namespace
}  // namespace uroce::netlink
