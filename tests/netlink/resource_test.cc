// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/netlink/rdma_fixture.h"

namespace uroce::netlink {
namespace {

class ResourceCommands : public RdmaCommands {
 protected:
  static RequestBytes dump_of(unsigned command) {
    return RequestBytes(command, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  }

  // The entries of a one-page dump. The message stays in messages_.
  std::vector<AttributeList> entries(const RequestBytes& request, unsigned table, unsigned entry) {
    const auto& pages = dump(request);
    if (pages.size() != 1) {
      ADD_FAILURE() << pages.size() << " messages";
      return {};
    }
    EXPECT_EQ(pages[0].attributes().number(RDMA_NLDEV_ATTR_DEV_INDEX), kFirst);
    EXPECT_EQ(pages[0].attributes().text(RDMA_NLDEV_ATTR_DEV_NAME), "ur0");
    return pages[0].attributes().table(table).all(entry);
  }
};

TEST_F(ResourceCommands, summary_counts_every_kind) {
  const Message& message =
      answer(RequestBytes(RDMA_NLDEV_CMD_RES_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst));
  std::map<std::string, uint64_t> counts;
  const AttributeList summary = message.attributes().table(RDMA_NLDEV_ATTR_RES_SUMMARY);
  for (const AttributeList& entry : summary.all(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY)) {
    counts[entry.text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)] =
        entry.number(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
  }
  EXPECT_EQ(counts, (std::map<std::string, uint64_t>{
                        {"pd", 1}, {"cq", 1}, {"qp", 2}, {"cm_id", 1}, {"mr", 1}, {"ctx", 1}, {"srq", 1}}));
  EXPECT_EQ(dump(RequestBytes(RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP)).size(), 2u);
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_RES_GET)), EINVAL);
}

TEST_F(ResourceCommands, qps) {
  const auto qps =
      entries(dump_of(RDMA_NLDEV_CMD_RES_QP_GET), RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
  ASSERT_EQ(qps.size(), 2u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_LQPN), 0x4011u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_PDN), 11u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_PID), 100u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_RQPN), 0x8022u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_RQ_PSN), 1u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_SQ_PSN), 2u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE), 0u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_TYPE), 2u);
  EXPECT_EQ(qps[0].number(RDMA_NLDEV_ATTR_RES_STATE), 3u);
  EXPECT_FALSE(qps[1].has(RDMA_NLDEV_ATTR_RES_RQPN)) << "UD has no peer";
  EXPECT_FALSE(qps[1].has(RDMA_NLDEV_ATTR_PORT_INDEX)) << "RESET has no port";
}

TEST_F(ResourceCommands, qps_of_a_port_are_those_beyond_reset) {
  const auto qps = entries(dump_of(RDMA_NLDEV_CMD_RES_QP_GET).u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1),
                           RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
  EXPECT_EQ(qps.size(), 1u);
  EXPECT_EQ(error(dump_of(RDMA_NLDEV_CMD_RES_QP_GET).u32(RDMA_NLDEV_ATTR_PORT_INDEX, 2)), EINVAL);
}

TEST_F(ResourceCommands, daemons_own_qp_has_a_name_instead_of_a_process) {
  model_.qps_[0].pid = 0;
  const auto qps =
      entries(dump_of(RDMA_NLDEV_CMD_RES_QP_GET), RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
  ASSERT_EQ(qps.size(), 2u);
  EXPECT_EQ(qps[0].text(RDMA_NLDEV_ATTR_RES_KERN_NAME), "uroced");
  EXPECT_FALSE(qps[0].has(RDMA_NLDEV_ATTR_RES_PID));
}

TEST_F(ResourceCommands, cqs_pds_and_contexts) {
  const auto cqs =
      entries(dump_of(RDMA_NLDEV_CMD_RES_CQ_GET), RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY);
  ASSERT_EQ(cqs.size(), 1u);
  EXPECT_EQ(cqs[0].number(RDMA_NLDEV_ATTR_RES_CQE), 255u);
  EXPECT_EQ(cqs[0].number(RDMA_NLDEV_ATTR_RES_USECNT), 3u);
  EXPECT_EQ(cqs[0].number(RDMA_NLDEV_ATTR_RES_CQN), 21u);
  EXPECT_EQ(cqs[0].number(RDMA_NLDEV_ATTR_RES_CTXN), 1u);
  const auto pds =
      entries(dump_of(RDMA_NLDEV_CMD_RES_PD_GET), RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY);
  ASSERT_EQ(pds.size(), 1u);
  EXPECT_EQ(pds[0].number(RDMA_NLDEV_ATTR_RES_PDN), 11u);
  EXPECT_EQ(pds[0].number(RDMA_NLDEV_ATTR_RES_USECNT), 2u);
  const auto contexts =
      entries(dump_of(RDMA_NLDEV_CMD_RES_CTX_GET), RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY);
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(contexts[0].number(RDMA_NLDEV_ATTR_RES_CTXN), 1u);
  EXPECT_EQ(contexts[0].number(RDMA_NLDEV_ATTR_RES_PID), 100u);
}

TEST_F(ResourceCommands, keys_are_for_administrators) {
  const auto mrs = [&] {
    return entries(dump_of(RDMA_NLDEV_CMD_RES_MR_GET), RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY);
  };
  auto seen = mrs();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].number(RDMA_NLDEV_ATTR_RES_RKEY), 0x1f00u);
  EXPECT_EQ(seen[0].number(RDMA_NLDEV_ATTR_RES_LKEY), 0x1f00u);
  EXPECT_EQ(seen[0].number(RDMA_NLDEV_ATTR_RES_IOVA), 0x7000u);
  EXPECT_EQ(seen[0].number(RDMA_NLDEV_ATTR_RES_MRLEN), 4096u);
  administrator_ = false;
  seen = mrs();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_FALSE(seen[0].has(RDMA_NLDEV_ATTR_RES_RKEY));
  EXPECT_FALSE(seen[0].has(RDMA_NLDEV_ATTR_RES_LKEY));
  EXPECT_EQ(seen[0].number(RDMA_NLDEV_ATTR_RES_MRN), 31u);
}

TEST_F(ResourceCommands, srq_lists_its_qps_as_ranges) {
  const auto srqs =
      entries(dump_of(RDMA_NLDEV_CMD_RES_SRQ_GET), RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY);
  ASSERT_EQ(srqs.size(), 1u);
  EXPECT_EQ(srqs[0].number(RDMA_NLDEV_ATTR_RES_SRQN), 41u);
  EXPECT_EQ(srqs[0].number(RDMA_NLDEV_ATTR_RES_TYPE), 1u);
  EXPECT_EQ(srqs[0].number(RDMA_NLDEV_ATTR_RES_CQN), 21u);
  const auto ranges = srqs[0].table(RDMA_NLDEV_ATTR_RES_QP).all(RDMA_NLDEV_ATTR_RES_QP_ENTRY);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].number(RDMA_NLDEV_ATTR_MIN_RANGE), 4u);
  EXPECT_EQ(ranges[0].number(RDMA_NLDEV_ATTR_MAX_RANGE), 5u);
  EXPECT_EQ(ranges[1].number(RDMA_NLDEV_ATTR_RES_LQPN), 9u);
}

TEST_F(ResourceCommands, srq_with_more_scattered_qps_than_fit_still_shows) {
  model_.srqs_[0].qps.clear();
  for (uint32_t i = 0; i < 5000; ++i) model_.srqs_[0].qps.push_back(i * 2);
  const auto srqs =
      entries(dump_of(RDMA_NLDEV_CMD_RES_SRQ_GET), RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY);
  ASSERT_EQ(srqs.size(), 1u);
  EXPECT_EQ(srqs[0].number(RDMA_NLDEV_ATTR_RES_PID), 100u);
}

TEST_F(ResourceCommands, cm_ids) {
  const auto ids = entries(dump_of(RDMA_NLDEV_CMD_RES_CM_ID_GET), RDMA_NLDEV_ATTR_RES_CM_ID,
                           RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids[0].number(RDMA_NLDEV_ATTR_RES_CM_IDN), 51u);
  EXPECT_EQ(ids[0].number(RDMA_NLDEV_ATTR_RES_PS), 0x106u);
  EXPECT_EQ(ids[0].number(RDMA_NLDEV_ATTR_RES_STATE), 6u);
  EXPECT_EQ(ids[0].number(RDMA_NLDEV_ATTR_RES_LQPN), 0x4011u);
  const auto source = ids[0].raw(RDMA_NLDEV_ATTR_RES_SRC_ADDR);
  ASSERT_EQ(source.size(), 128u) << "a whole sockaddr_storage";
  EXPECT_EQ(source[4], 192);
  EXPECT_FALSE(ids[0].has(RDMA_NLDEV_ATTR_RES_DST_ADDR));
}

TEST_F(ResourceCommands, one_object_by_number) {
  const Message& cq = answer(RequestBytes(RDMA_NLDEV_CMD_RES_CQ_GET)
                                 .u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)
                                 .u32(RDMA_NLDEV_ATTR_RES_CQN, 21));
  EXPECT_EQ(cq.command(), RDMA_NLDEV_CMD_RES_CQ_GET);
  EXPECT_EQ(cq.attributes().number(RDMA_NLDEV_ATTR_RES_CQE), 255u) << "flat, without a table";
  const Message& qp = answer(RequestBytes(RDMA_NLDEV_CMD_RES_QP_GET)
                                 .u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)
                                 .u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
                                 .u32(RDMA_NLDEV_ATTR_RES_LQPN, 0x4011));
  EXPECT_EQ(qp.attributes().number(RDMA_NLDEV_ATTR_RES_RQPN), 0x8022u);
}

TEST_F(ResourceCommands, one_object_errors_are_the_kernels) {
  const auto cq = [] {
    return RequestBytes(RDMA_NLDEV_CMD_RES_CQ_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  };
  EXPECT_EQ(error(cq()), EINVAL) << "no number";
  EXPECT_EQ(error(cq().u32(RDMA_NLDEV_ATTR_RES_CQN, 22)), ENOENT);
  EXPECT_EQ(error(cq().u32(RDMA_NLDEV_ATTR_RES_CQN, 21).u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)), EINVAL)
      << "not of a port";
  const auto qp = [] {
    return RequestBytes(RDMA_NLDEV_CMD_RES_QP_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  };
  EXPECT_EQ(error(qp().u32(RDMA_NLDEV_ATTR_RES_LQPN, 0x4011)), EINVAL) << "of a port";
}

TEST_F(ResourceCommands, empty_dump_is_only_done) {
  model_.qps_.clear();
  EXPECT_TRUE(dump(dump_of(RDMA_NLDEV_CMD_RES_QP_GET)).empty());
}

TEST_F(ResourceCommands, dump_needs_a_device) {
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP)), EINVAL);
  EXPECT_EQ(
      error(RequestBytes(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kNobody)),
      EINVAL);
}

TEST_F(ResourceCommands, large_dump_comes_in_pages_and_whole) {
  model_.mrs_.clear();
  for (uint32_t i = 0; i < 20'000; ++i) model_.mrs_.push_back({i, i << 8, 11, 100, i * 4096u, 4096});
  std::vector<uint64_t> seen;
  for (const Message& page : dump(dump_of(RDMA_NLDEV_CMD_RES_MR_GET))) {
    const AttributeList table = page.attributes().table(RDMA_NLDEV_ATTR_RES_MR);
    const auto mrs = table.all(RDMA_NLDEV_ATTR_RES_MR_ENTRY);
    EXPECT_FALSE(mrs.empty());
    for (const AttributeList& mr : mrs) seen.push_back(mr.number(RDMA_NLDEV_ATTR_RES_MRN));
  }
  ASSERT_EQ(seen.size(), 20'000u);
  for (uint32_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], i);
}

TEST_F(ResourceCommands, raw_form_does_not_exist) {
  EXPECT_EQ(
      error(RequestBytes(RDMA_NLDEV_CMD_RES_QP_GET_RAW, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)),
      EINVAL);
  EXPECT_EQ(error(dump_of(RDMA_NLDEV_CMD_RES_CQ_GET_RAW)), EINVAL);
}

}  // namespace
}  // namespace uroce::netlink
