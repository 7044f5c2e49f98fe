// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/netlink/rdma_fixture.h"

namespace uroce::netlink {
namespace {

class StatisticCommands : public RdmaCommands {
 protected:
  static RequestBytes of_link(unsigned command, unsigned flags = 0) {
    return RequestBytes(command, flags)
        .u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)
        .u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
  }
};

TEST_F(StatisticCommands, counters_of_a_link) {
  const AttributeList list = answer(of_link(RDMA_NLDEV_CMD_STAT_GET)).attributes();
  EXPECT_EQ(list.text(RDMA_NLDEV_ATTR_DEV_NAME), "ur0");
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  const auto counters = list.table(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS).all(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[0].text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME), "sent_pkts");
  EXPECT_EQ(counters[0].number(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE), 1234567890123u);
}

TEST_F(StatisticCommands, as_many_counters_as_the_daemon_has_fit) {
  model_.counters_.assign(40, {"a_counter_with_a_rather_long_name", ~0ull});
  const AttributeList list = answer(of_link(RDMA_NLDEV_CMD_STAT_GET)).attributes();
  EXPECT_EQ(list.table(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS).all(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY).size(),
            40u);
}

TEST_F(StatisticCommands, more_than_a_message_holds_is_an_error_not_a_torn_answer) {
  model_.counters_.assign(400, {"a_counter_with_a_rather_long_name", 0});
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_GET)), EMSGSIZE);
}

TEST_F(StatisticCommands, counters_need_a_link) {
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_STAT_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)), EINVAL);
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_STAT_GET).u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)), EINVAL);
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_GET).u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_PD)),
            EINVAL);
}

TEST_F(StatisticCommands, qps_are_in_no_counter_mode) {
  const auto request = of_link(RDMA_NLDEV_CMD_STAT_GET)
                           .u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP)
                           .u32(RDMA_NLDEV_ATTR_STAT_MODE, 0);
  EXPECT_EQ(answer(request).attributes().number(RDMA_NLDEV_ATTR_STAT_MODE), RDMA_COUNTER_MODE_NONE);
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_GET).u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP)),
            EINVAL);
}

TEST_F(StatisticCommands, there_are_no_qp_counters) {
  EXPECT_TRUE(
      dump(of_link(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP))
          .empty());
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_GET)
                      .u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP)
                      .u32(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, 1)),
            ENOENT);
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP)), EINVAL);
}

TEST_F(StatisticCommands, mr_statistic_names_the_mr) {
  const auto request = [](unsigned flags) {
    return RequestBytes(RDMA_NLDEV_CMD_STAT_GET, flags)
        .u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)
        .u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_MR);
  };
  EXPECT_EQ(answer(request(0).u32(RDMA_NLDEV_ATTR_RES_MRN, 31)).attributes().number(RDMA_NLDEV_ATTR_RES_MRN),
            31u);
  EXPECT_EQ(error(request(0).u32(RDMA_NLDEV_ATTR_RES_MRN, 32)), ENOENT);
  const auto& pages = dump(request(NLM_F_DUMP));
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_EQ(pages[0].attributes().table(RDMA_NLDEV_ATTR_RES_MR).all(RDMA_NLDEV_ATTR_RES_MR_ENTRY).size(), 1u);
}

TEST_F(StatisticCommands, setting_a_mode_is_refused_with_a_reason) {
  const auto request = of_link(RDMA_NLDEV_CMD_STAT_SET, NLM_F_ACK)
                           .u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP)
                           .u32(RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_AUTO);
  EXPECT_EQ(error(request), EOPNOTSUPP);
  EXPECT_NE(explanation_, "");
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_SET, NLM_F_ACK)), EINVAL);
}

TEST_F(StatisticCommands, no_counter_is_optional) {
  const std::vector<uint8_t> one = {8, 0, 86, 0, 0, 0, 0, 0};
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_SET, NLM_F_ACK)
                      .raw(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, one.data(), one.size())),
            EINVAL);
  EXPECT_EQ(
      error(of_link(RDMA_NLDEV_CMD_STAT_SET, NLM_F_ACK).raw(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, nullptr, 0)), 0);
  const AttributeList list = answer(of_link(RDMA_NLDEV_CMD_STAT_GET_STATUS)).attributes();
  const auto counters = list.table(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS).all(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[1].text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME), "rcvd_pkts");
  EXPECT_EQ(counters[1].number(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX), 1u);
  EXPECT_FALSE(counters[1].has(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC));
}

TEST_F(StatisticCommands, unbinding_finds_nothing) {
  const auto request = of_link(RDMA_NLDEV_CMD_STAT_DEL, NLM_F_ACK)
                           .u32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP)
                           .u32(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, 1)
                           .u32(RDMA_NLDEV_ATTR_RES_LQPN, 0x4011);
  EXPECT_EQ(error(request), ENOENT);
  EXPECT_EQ(error(of_link(RDMA_NLDEV_CMD_STAT_DEL, NLM_F_ACK)), EINVAL);
}

}  // namespace
}  // namespace uroce::netlink
