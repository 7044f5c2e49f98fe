// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/guid.h"

#include <gtest/gtest.h>

#include <set>

#include "tools/uroced/device_facts.h"

namespace uroce::daemon {
namespace {

netlink::Link link(uint32_t ifindex, std::vector<uint8_t> mac) {
  netlink::Link l;
  l.ifindex = ifindex;
  l.name = "n" + std::to_string(ifindex);
  l.mac = std::move(mac);
  return l;
}

constexpr auto nobody = [](uint64_t) { return false; };

TEST(Guid, is_the_eui64_of_the_mac) {
  EXPECT_EQ(guid_text(node_guid_be(link(2, {0x02, 0x11, 0x22, 0x33, 0x44, 0x55}), 1, nobody)),
            "0011:22ff:fe33:4455");
}

TEST(Guid, netdevs_that_share_a_mac_or_have_none_get_different_ones) {
  std::set<uint64_t> seen;
  const auto taken = [&](uint64_t guid) { return seen.count(guid) != 0; };
  for (uint32_t i = 1; i < 200; ++i) {
    const auto mac = i % 3 == 0   ? std::vector<uint8_t>{}
                     : i % 3 == 1 ? std::vector<uint8_t>(6, 0)
                                  : std::vector<uint8_t>{2, 0, 0, 0, 0, 1};
    const uint64_t guid = node_guid_be(link(i, mac), 42, taken);
    EXPECT_NE(guid, 0u);
    EXPECT_TRUE(seen.insert(guid).second);
  }
}

TEST(Guid, differs_between_namespaces_where_there_is_no_mac) {
  EXPECT_NE(node_guid_be(link(1, {}), 1, nobody), node_guid_be(link(1, {}), 2, nobody));
  EXPECT_EQ(node_guid_be(link(1, {}), 1, nobody), node_guid_be(link(1, {}), 1, nobody));
}

}  // namespace
}  // namespace uroce::daemon
