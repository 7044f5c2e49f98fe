// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/gid_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace uroce::daemon {
namespace {

using netlink::Address;
using netlink::Link;

Link ethernet(uint32_t ifindex, const std::string& name = "eth0") {
  Link link;
  link.ifindex = ifindex;
  link.name = name;
  link.mac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
  link.mtu = 1500;
  return link;
}

Address v4(uint32_t ifindex, const char* text) {
  uint32_t be;
  inet_pton(AF_INET, text, &be);
  return {ifindex, wire::Gid::from_ipv4_be(be), 24, false};
}

Address v6(uint32_t ifindex, const char* text) {
  Address address;
  address.ifindex = ifindex;
  inet_pton(AF_INET6, text, address.address.raw.data());
  return address;
}

std::string text_of(const uroce_gid_entry& entry) {
  wire::Gid gid;
  std::memcpy(gid.raw.data(), entry.gid, 16);
  if (gid.is_zero()) return "";
  char text[64];
  inet_ntop(gid.is_ipv4() ? AF_INET : AF_INET6, entry.gid + (gid.is_ipv4() ? 12 : 0), text, sizeof text);
  return text;
}

class GidTable : public ::testing::Test {
 protected:
  GidChange update(const Link& netdev, const std::vector<Link>& links, const std::vector<Address>& addresses,
                   bool ipv6 = true) {
    return update_gid_table(table, gid_source(netdev, links, addresses, ipv6));
  }
  std::array<uroce_gid_entry, UROCE_GID_TABLE_LEN> table{};
};

TEST_F(GidTable, default_gid_from_mac_then_addresses_in_order) {
  const Link eth = ethernet(2);
  const auto change =
      update(eth, {eth}, {v4(2, "10.0.0.1"), v6(2, "fe80::11:22ff:fe33:4455"), v6(2, "2001:db8::1")});
  EXPECT_TRUE(change.changed);
  EXPECT_EQ(text_of(table[0]), "fe80::11:22ff:fe33:4455");
  EXPECT_EQ(text_of(table[1]), "10.0.0.1");
  EXPECT_EQ(text_of(table[2]), "2001:db8::1")
      << "the link-local address is the default GID and not listed twice";
  EXPECT_EQ(text_of(table[3]), "");
}

TEST_F(GidTable, nothing_new_is_no_change) {
  const Link eth = ethernet(2);
  update(eth, {eth}, {v4(2, "10.0.0.1")});
  EXPECT_FALSE(update(eth, {eth}, {v4(2, "10.0.0.1")}).changed);
}

TEST_F(GidTable, an_address_keeps_its_index_and_a_freed_one_is_used_again) {
  const Link eth = ethernet(2);
  update(eth, {eth}, {v4(2, "10.0.0.1"), v4(2, "10.0.0.2"), v4(2, "10.0.0.3")});
  update(eth, {eth}, {v4(2, "10.0.0.1"), v4(2, "10.0.0.3")});
  EXPECT_EQ(text_of(table[2]), "");
  EXPECT_EQ(text_of(table[3]), "10.0.0.3");
  update(eth, {eth}, {v4(2, "10.0.0.1"), v4(2, "10.0.0.3"), v4(2, "10.0.0.4")});
  EXPECT_EQ(text_of(table[2]), "10.0.0.4");
}

TEST_F(GidTable, default_gid_follows_the_mac_and_ipv6) {
  Link eth = ethernet(2);
  update(eth, {eth}, {v4(2, "10.0.0.1")});
  eth.mac = {0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee};
  EXPECT_TRUE(update(eth, {eth}, {v4(2, "10.0.0.1")}).changed);
  EXPECT_EQ(text_of(table[0]), "fe80::aa:bbff:fecc:ddee");
  update(eth, {eth}, {v4(2, "10.0.0.1")}, false);
  EXPECT_EQ(text_of(table[0]), "") << "without IPv6 nobody can reach it";
  EXPECT_EQ(text_of(table[1]), "10.0.0.1") << "index 0 stays reserved";
}

TEST_F(GidTable, tentative_addresses_wait) {
  const Link eth = ethernet(2);
  Address address = v6(2, "2001:db8::1");
  address.tentative = true;
  update(eth, {eth}, {address});
  EXPECT_EQ(text_of(table[1]), "");
  address.tentative = false;
  update(eth, {eth}, {address});
  EXPECT_EQ(text_of(table[1]), "2001:db8::1");
}

TEST_F(GidTable, loopback_has_no_default_gid) {
  Link lo;
  lo.ifindex = 1;
  lo.name = "lo";
  lo.loopback = true;
  lo.mac = {0, 0, 0, 0, 0, 0};
  update(lo, {lo}, {v4(1, "127.0.0.1"), v6(1, "::1")});
  EXPECT_EQ(text_of(table[0]), "::1");
  EXPECT_EQ(text_of(table[1]), "127.0.0.1");
}

TEST_F(GidTable, addresses_of_vlans_and_macvlans_above_belong_to_it) {
  const Link eth = ethernet(2);
  Link vlan = ethernet(5, "eth0.7"), inner = ethernet(6, "eth0.7.8"), macvlan = ethernet(7, "mv0");
  vlan.kind = inner.kind = "vlan";
  macvlan.kind = "macvlan";
  vlan.lower_ifindex = 2;
  inner.lower_ifindex = 5;
  macvlan.lower_ifindex = 2;
  update(eth, {eth, vlan, inner, macvlan}, {v4(5, "10.7.0.1"), v4(6, "10.8.0.1"), v4(7, "10.9.0.1")});
  EXPECT_EQ(text_of(table[1]), "10.7.0.1");
  EXPECT_EQ(table[1].ifindex, 5u);
  EXPECT_EQ(text_of(table[2]), "10.8.0.1");
  EXPECT_EQ(text_of(table[3]), "10.9.0.1");
}

TEST_F(GidTable, a_veth_peer_is_not_above) {
  const Link eth = ethernet(2);
  Link peer = ethernet(3, "veth1");
  peer.kind = "veth";
  peer.lower_ifindex = 2;
  update(eth, {eth, peer}, {v4(3, "10.0.0.9")});
  EXPECT_EQ(text_of(table[1]), "");
}

TEST_F(GidTable, links_that_refer_to_each_other_end) {
  Link a = ethernet(2), b = ethernet(3);
  a.kind = b.kind = "vlan";
  a.lower_ifindex = 3;
  b.lower_ifindex = 2;
  const std::vector<Link> links{a, b};
  real_netdev(2, links);
}

TEST_F(GidTable, a_full_table_says_how_many_found_no_place) {
  const Link eth = ethernet(2);
  std::vector<Address> addresses;
  for (int i = 0; i < UROCE_GID_TABLE_LEN + 9; ++i) {
    addresses.push_back(
        v4(2, ("10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1)).c_str()));
  }
  EXPECT_EQ(update(eth, {eth}, addresses).without_slot, 10u);
}

TEST_F(GidTable, the_same_address_on_two_netdevs_is_two_entries) {
  const Link eth = ethernet(2);
  Link vlan = ethernet(5, "eth0.7");
  vlan.kind = "vlan";
  vlan.lower_ifindex = 2;
  update(eth, {eth, vlan}, {v4(2, "10.0.0.1"), v4(5, "10.0.0.1")});
  EXPECT_EQ(table[1].ifindex, 2u);
  EXPECT_EQ(table[2].ifindex, 5u);
}

}  // namespace
}  // namespace uroce::daemon
