// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/cm/port_table.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce::cm {
namespace {

constexpr uint16_t kSpace = 0x0106, kOther = 0x0111;

Address ipv4(uint8_t last, uint16_t port = 5000) {
  wire::Gid g;
  g.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
  return Address::of(g, port);
}

Address link_local(uint32_t scope) {
  wire::Gid g;
  g.raw = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  Address out = Address::of(g, 5000);
  out.scope = scope;
  return out;
}

Address any(uint16_t family) {
  Address out = Address::any(family);
  out.port = 5000;
  return out;
}

TEST(PortTable, different_addresses_share_a_port) {
  PortTable table;
  EXPECT_EQ(table.take(kSpace, {1, ipv4(1)}), 0);
  EXPECT_EQ(table.take(kSpace, {2, ipv4(2)}), 0);
  EXPECT_EQ(table.take(kSpace, {3, ipv4(1)}), EADDRINUSE);
  EXPECT_EQ(table.take(kSpace, {3, any(AF_INET)}), EADDRNOTAVAIL);
  EXPECT_EQ(table.take(kSpace, {3, ipv4(1, 5001)}), 0);
  EXPECT_EQ(table.take(kOther, {4, ipv4(1)}), 0);  // port spaces know nothing of each other
}

TEST(PortTable, a_wildcard_is_alone) {
  PortTable table;
  EXPECT_EQ(table.take(kSpace, {1, any(AF_INET)}), 0);
  EXPECT_EQ(table.take(kSpace, {2, ipv4(1)}), EADDRNOTAVAIL);
  EXPECT_EQ(table.take(kSpace, {2, any(AF_INET)}), EADDRNOTAVAIL);
}

TEST(PortTable, wildcards_of_two_families_share_if_both_want_their_own_only) {
  PortTable table;
  EXPECT_EQ(table.take(kSpace, {1, any(AF_INET), false, true}), 0);
  EXPECT_EQ(table.take(kSpace, {2, any(AF_INET6), false, false}), EADDRNOTAVAIL);
  EXPECT_EQ(table.take(kSpace, {2, any(AF_INET6), false, true}), 0);
  EXPECT_EQ(table.take(kSpace, {3, any(AF_INET6), false, true}), EADDRNOTAVAIL);
}

TEST(PortTable, reuse_must_be_wanted_by_both) {
  PortTable table;
  EXPECT_EQ(table.take(kSpace, {1, ipv4(1), true}), 0);
  EXPECT_EQ(table.take(kSpace, {2, ipv4(1), false}), EADDRINUSE);
  EXPECT_EQ(table.take(kSpace, {2, ipv4(1), true}), 0);
  EXPECT_EQ(table.take(kSpace, {3, any(AF_INET), true}), 0);
}

TEST(PortTable, only_one_may_listen) {
  PortTable table;
  const PortUser first{1, ipv4(1), true};
  ASSERT_EQ(table.take(kSpace, first), 0);
  EXPECT_EQ(table.may_listen(kSpace, first), 0);
  ASSERT_EQ(table.take(kSpace, {2, ipv4(1), true}), 0);
  EXPECT_EQ(table.may_listen(kSpace, first), EADDRINUSE);
  table.give_back(kSpace, 5000, 2);
  ASSERT_EQ(table.take(kSpace, {3, any(AF_INET), true}), 0);
  EXPECT_EQ(table.may_listen(kSpace, first), EADDRNOTAVAIL);
}

TEST(PortTable, link_local_addresses_belong_to_a_netdev_others_do_not) {
  PortTable table;
  EXPECT_EQ(table.take(kSpace, {1, link_local(2)}), 0);
  EXPECT_EQ(table.take(kSpace, {2, link_local(3)}), 0);
  EXPECT_EQ(table.take(kSpace, {3, link_local(2)}), EADDRINUSE);
  Address global = link_local(0), elsewhere = link_local(4);
  global.ip.raw[0] = elsewhere.ip.raw[0] = 0xfd;
  EXPECT_EQ(table.take(kSpace, {4, global}), 0);
  EXPECT_EQ(table.take(kSpace, {5, elsewhere}), EADDRINUSE);
}

TEST(PortTable, a_port_that_was_given_back_is_free) {
  PortTable table;
  ASSERT_EQ(table.take(kSpace, {1, ipv4(1)}), 0);
  table.give_back(kOther, 5000, 1);
  table.give_back(kSpace, 5000, 2);
  EXPECT_EQ(table.take(kSpace, {2, ipv4(1)}), EADDRINUSE);
  table.give_back(kSpace, 5000, 1);
  EXPECT_TRUE(table.users(kSpace, 5000).empty());
  EXPECT_EQ(table.take(kSpace, {2, ipv4(1)}), 0);
}

TEST(PortTable, update_changes_what_others_are_compared_with) {
  PortTable table;
  ASSERT_EQ(table.take(kSpace, {1, any(AF_INET)}), 0);
  table.update(kSpace, {1, ipv4(1)});
  EXPECT_EQ(table.take(kSpace, {2, ipv4(2)}), 0);
  table.update(kSpace, {3, ipv4(3)});  // has none: nothing happens
  EXPECT_EQ(table.users(kSpace, 5000).size(), 2u);
  table.update(kSpace, {3, ipv4(3, 5001)});
  EXPECT_TRUE(table.users(kSpace, 5001).empty());
}

TEST(PortTable, any_port_is_looked_for_from_the_start_and_round) {
  PortTable table;
  const PortTable::Range range{40000, 40002};
  const auto take = [&](uint32_t id, uint32_t start) {
    PortUser user{id, ipv4(1, 0)};
    EXPECT_EQ(table.take_any(kSpace, user, range, start), 0);
    return user.address.port;
  };
  EXPECT_EQ(take(1, 2), 40002);
  EXPECT_EQ(take(2, 2), 40000);
  EXPECT_EQ(take(3, UINT32_MAX), 40001);
  PortUser late{4, ipv4(2, 0)};
  EXPECT_EQ(table.take_any(kSpace, late, range, 0), EADDRNOTAVAIL);
  EXPECT_EQ(late.address.port, 0);
  EXPECT_EQ(table.take_any(kOther, late, range, 0), 0);
  table.give_back(kSpace, 40001, 3);
  EXPECT_EQ(take(5, 0), 40001);
}

}  // namespace
}  // namespace uroce::cm
