// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The table of layouts against indices that were read in rdma-core's sources, version by version.
#include "provider/verbs/private_abi.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace uroce::verbs::abi {
namespace {

// Columns: 34, 35, 36-58, 59-61, 62-63, 64.
using Column = std::array<int, kLayouts.size()>;
constexpr int kAbsent = -1;

TEST(PrivateAbi, index_of_each_operation_in_each_layout) {
  const std::map<Op, Column> expected = {
      {Op::advise_mr, {0, 0, 0, 0, 0, 0}},
      {Op::alloc_buf, {kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, 1}},
      {Op::alloc_dm, {1, 1, 1, 1, 1, 2}},
      {Op::alloc_dmah, {kAbsent, kAbsent, kAbsent, 2, 2, 3}},
      {Op::alloc_pd, {5, 5, 5, 6, 6, 7}},
      {Op::attach_mcast, {9, 9, 9, 10, 10, 11}},
      {Op::create_cq, {15, 15, 15, 16, 16, 17}},
      {Op::create_qp_ex, {20, 20, 20, 21, 21, 22}},
      {Op::dealloc_dmah, {kAbsent, kAbsent, kAbsent, 26, 26, 27}},
      {Op::dereg_mr, {28, 28, 28, 30, 30, 31}},
      {Op::dm_export_dmabuf_fd, {kAbsent, kAbsent, kAbsent, kAbsent, 41, 42}},
      {Op::free_buf, {kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, 43}},
      {Op::free_context, {39, 39, 39, 41, 42, 44}},
      {Op::import_dm, {kAbsent, 42, 42, 44, 45, 47}},
      {Op::modify_qp, {46, 47, 47, 49, 50, 52}},
      {Op::poll_cq, {52, 53, 53, 55, 56, 58}},
      {Op::post_send, {54, 55, 55, 57, 58, 60}},
      {Op::query_port, {59, 60, 60, 62, 63, 65}},
      {Op::query_port_speed, {kAbsent, kAbsent, kAbsent, kAbsent, 64, 66}},
      {Op::query_qp_data_in_order, {kAbsent, kAbsent, 62, 64, 66, 68}},
      {Op::reg_mr, {66, 67, 68, 70, 72, 74}},
      {Op::reg_mr_ex, {kAbsent, kAbsent, kAbsent, 71, 73, 75}},
      {Op::req_notify_cq, {67, 68, 69, 72, 74, 76}},
      {Op::unimport_dm, {kAbsent, 72, 73, 76, 78, 80}},
      {Op::unimport_pd, {72, 74, 75, 78, 80, 82}},
  };
  for (const auto& [op, column] : expected) {
    for (size_t i = 0; i < kLayouts.size(); ++i) {
      const int found = kLayouts[i].has(op) ? static_cast<int>(kLayouts[i].index_of(op)) : kAbsent;
      EXPECT_EQ(found, column[i]) << "operation " << static_cast<int>(op) << ", rdma-core "
                                  << kLayouts[i].first_version;
    }
  }
}

TEST(PrivateAbi, layouts_follow_each_other_without_gap) {
  for (size_t i = 1; i < kLayouts.size(); ++i) {
    EXPECT_EQ(kLayouts[i].first_version, kLayouts[i - 1].last_version + 1);
    EXPECT_GE(kLayouts[i].op_count, kLayouts[i - 1].op_count);
    EXPECT_GE(kLayouts[i].context_offset, kLayouts[i - 1].context_offset);
  }
}

TEST(PrivateAbi, members_that_programs_reach_by_inline_functions) {
  EXPECT_EQ(offsetof(ibv_qp_ex, wr_start), 320u);
  EXPECT_EQ(offsetof(ibv_qp_ex, wr_id), 168u);
  EXPECT_EQ(offsetof(ibv_cq_ex, start_poll), 144u);
  EXPECT_EQ(sizeof(verbs_mr), 56u);
}

}  // namespace
}  // namespace uroce::verbs::abi
