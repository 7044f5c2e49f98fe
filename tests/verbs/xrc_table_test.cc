// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/xrc_table.h"

#include <gtest/gtest.h>

#include "provider/verbs/qp.h"

namespace uroce::verbs {
namespace {

std::unique_ptr<QueuePair> target(uint32_t qpn, uint32_t domain) {
  auto qp = std::make_unique<QueuePair>();
  qp->base.qp_num = qpn;
  qp->xrc_domain = domain;
  qp->shared = std::make_shared<QpShared>();
  return qp;
}

std::unique_ptr<QueuePair> further_handle(uint32_t qpn) {
  auto qp = std::make_unique<QueuePair>();
  qp->base.qp_num = qpn;
  qp->created = false;
  return qp;
}

TEST(XrcTable, domains_on_one_inode_are_one) {
  XrcTable table;
  const uint32_t a = table.enter_domain(1, 10);
  EXPECT_EQ(table.enter_domain(1, 10), a);
  EXPECT_NE(table.enter_domain(1, 11), a);
  EXPECT_NE(table.enter_domain(2, 10), a);
  const uint32_t own = table.enter_private_domain();
  EXPECT_NE(table.enter_private_domain(), own);
}

TEST(XrcTable, a_domain_ends_with_its_last_opener) {
  XrcTable table;
  const uint32_t a = table.enter_domain(1, 10);
  table.enter_domain(1, 10);
  table.leave_domain(a);
  EXPECT_EQ(table.enter_domain(1, 10), a);
  table.leave_domain(a);
  table.leave_domain(a);
  EXPECT_NE(table.enter_domain(1, 10), a);
}

TEST(XrcTable, a_target_is_found_in_its_domain_only) {
  XrcTable table;
  const auto qp = target(77, 3);
  table.add_target(*qp);
  const auto handle = further_handle(77);
  EXPECT_FALSE(table.join_target(*handle, 77, 4));
  EXPECT_FALSE(table.join_target(*handle, 78, 3));
  EXPECT_TRUE(table.join_target(*handle, 77, 3));
  EXPECT_EQ(handle->shared, qp->shared);
}

TEST(XrcTable, the_creators_memory_stays_until_the_last_handle_goes) {
  XrcTable table;
  auto qp = target(77, 3);
  table.add_target(*qp);
  auto handle = further_handle(77);
  ASSERT_TRUE(table.join_target(*handle, 77, 3));

  const QueuePair* const creator = qp.get();
  EXPECT_FALSE(table.leave_target(*qp));
  EXPECT_EQ(table.keep_creator(qp, false), nullptr);
  EXPECT_EQ(qp, nullptr);  // kept: events may still name it

  EXPECT_TRUE(table.leave_target(*handle));
  EXPECT_EQ(table.keep_creator(handle, true).get(), creator);
  EXPECT_FALSE(table.join_target(*handle, 77, 3));
}

}  // namespace
}  // namespace uroce::verbs
