// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// In a network namespace of its own, changed by ip(8).
#include "netlink/route/route_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace uroce::netlink {
namespace {

constexpr int kPatienceMs = 5'000;

wire::Gid gid(const char* text) {
  wire::Gid out;
  in_addr four{};
  if (inet_pton(AF_INET, text, &four) == 1) return wire::Gid::from_ipv4_be(four.s_addr);
  EXPECT_EQ(inet_pton(AF_INET6, text, out.raw.data()), 1) << text;
  return out;
}

class RouteTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) {
      GTEST_SKIP() << "cannot make a network namespace: " << std::strerror(errno);
    }
    ip("link set lo up");
    ip("link add left address 02:00:00:00:00:01 mtu 4200 type veth peer name right");
    ip("link set left up");
    ip("link set right up");
    ip("address add 192.0.2.1/24 dev left");
    ip("address add 2001:db8::1/64 dev left nodad");
    std::string why;
    table_ = RouteTable::open(why);
    ASSERT_NE(table_, nullptr) << why;
    table_->on_change([this] { changes_++; });
  }

  void ip(const std::string& arguments) {
    ASSERT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments;
  }

  // Follows events until `true_now`.
  template <typename Condition>
  bool becomes_true(Condition true_now) {
    while (!true_now()) {
      pollfd waits{table_->descriptor(), POLLIN, 0};
      if (poll(&waits, 1, kPatienceMs) <= 0) return false;
      table_->dispatch();
    }
    return true;
  }

  // The kernel makes the local route of an IPv6 address in its own time.
  bool is_local_soon(const wire::Gid& own) {
    for (int waited_ms = 0; waited_ms < kPatienceMs; ++waited_ms) {
      const auto route = table_->route(own, {}, 0);
      if (route && route->local) return true;
      poll(nullptr, 0, 1);
    }
    return false;
  }

  const Link& link(const std::string& name) {
    static const Link none;
    const Link* found = table_->find_link(name);
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? none : *found;
  }

  bool has_address(const char* text) {
    for (const Address& a : table_->addresses()) {
      if (a.address == gid(text)) return true;
    }
    return false;
  }

  std::unique_ptr<RouteTable> table_;
  int changes_ = 0;
};

TEST_F(RouteTableTest, knows_what_each_netdev_is) {
  const Link& left = link("left");
  EXPECT_EQ(left.mac, (std::vector<uint8_t>{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(left.mtu, 4200u);
  EXPECT_EQ(left.kind, "veth");
  EXPECT_EQ(left.lower_ifindex, link("right").ifindex);
  EXPECT_TRUE(left.up);
  EXPECT_TRUE(left.running);
  EXPECT_FALSE(left.loopback);
  EXPECT_TRUE(link("lo").loopback);
  EXPECT_TRUE(link("lo").running);
  EXPECT_EQ(table_->find_link(left.ifindex), &left);
  EXPECT_EQ(table_->find_link("nobody"), nullptr);
  EXPECT_EQ(table_->find_link(99'999u), nullptr);
}

TEST_F(RouteTableTest, follows_the_carrier_and_ifi_up) {
  ip("link set right down");
  EXPECT_TRUE(becomes_true([&] { return !link("left").running; }));
  EXPECT_TRUE(link("left").up);
  ip("link set left down");
  EXPECT_TRUE(becomes_true([&] { return !link("left").up; }));
  EXPECT_GT(changes_, 0);
}

TEST_F(RouteTableTest, follows_a_new_name_and_a_deletion) {
  const uint32_t ifindex = link("left").ifindex;
  ip("link set left name west");
  EXPECT_TRUE(becomes_true([&] { return table_->find_link("west") != nullptr; }));
  EXPECT_EQ(link("west").ifindex, ifindex);
  ip("link delete west");
  EXPECT_TRUE(becomes_true([&] { return table_->find_link(ifindex) == nullptr; }));
  EXPECT_FALSE(has_address("192.0.2.1"));
}

TEST_F(RouteTableTest, sees_what_happened_before_dispatch) {
  ip("link add later type veth peer name latest");
  table_->dispatch();
  EXPECT_EQ(link("later").kind, "veth");
}

TEST_F(RouteTableTest, vlan_names_its_real_netdev) {
  if (std::system("ip link add link left name left.7 type vlan id 7") != 0) {
    GTEST_SKIP() << "this kernel has no VLAN netdevs";
  }
  table_->dispatch();
  EXPECT_EQ(link("left.7").kind, "vlan");
  EXPECT_EQ(link("left.7").lower_ifindex, link("left").ifindex);
}

TEST_F(RouteTableTest, lower_netdev_of_another_namespace_is_none) {
  // The other namespace lives as long as the child that sleeps in it.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool moved = unshare(CLONE_NEWNET) == 0;
    if (write(ends[1], &moved, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  bool moved = false;
  ASSERT_EQ(read(ends[0], &moved, 1), 1);
  ASSERT_TRUE(moved);
  ip("link set right netns " + std::to_string(child));
  table_->dispatch();
  EXPECT_EQ(link("left").lower_ifindex, 0u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(RouteTableTest, bridge_port_names_its_master) {
  ip("link add bridge0 type bridge");
  ip("link set left master bridge0");
  table_->dispatch();
  EXPECT_EQ(link("left").master_ifindex, link("bridge0").ifindex);
}

TEST_F(RouteTableTest, tunnel_has_no_mac) {
  if (std::system("ip tuntap add dev tun7 mode tun 2>/dev/null") != 0) GTEST_SKIP() << "no tun device here";
  table_->dispatch();
  EXPECT_TRUE(link("tun7").mac.empty());
}

TEST_F(RouteTableTest, addresses_keep_the_order_they_were_given_in) {
  ip("address add 192.0.2.9/24 dev left");
  ip("address add 192.0.2.5/24 dev left");
  table_->dispatch();
  std::vector<wire::Gid> four;
  for (const Address& a : table_->addresses()) {
    if (a.ifindex == link("left").ifindex && a.address.is_ipv4()) four.push_back(a.address);
  }
  EXPECT_EQ(four, (std::vector{gid("192.0.2.1"), gid("192.0.2.9"), gid("192.0.2.5")}));
}

TEST_F(RouteTableTest, address_says_its_prefix_and_netdev) {
  for (const Address& a : table_->addresses()) {
    if (a.address != gid("2001:db8::1")) continue;
    EXPECT_EQ(a.prefix, 64);
    EXPECT_EQ(a.ifindex, link("left").ifindex);
    EXPECT_FALSE(a.tentative);
    return;
  }
  FAIL() << "2001:db8::1 is missing";
}

TEST_F(RouteTableTest, address_under_duplicate_detection_is_tentative_until_it_ends) {
  ip("address add 2001:db8::2/64 dev left");
  table_->dispatch();
  const auto settled = [&] {
    for (const Address& a : table_->addresses()) {
      if (a.address == gid("2001:db8::2")) return !a.tentative;
    }
    return false;
  };
  EXPECT_FALSE(settled());
  EXPECT_TRUE(becomes_true(settled));
}

TEST_F(RouteTableTest, duplicate_address_stays_tentative) {
  ip("address add 2001:db8::3/64 dev right nodad");
  ip("address add 2001:db8::3/64 dev left");
  const auto failed = [&] {
    const int found = std::system("ip -6 address show dev left | grep -q dadfailed");
    return found == 0;
  };
  ASSERT_TRUE(becomes_true(failed));
  table_->dispatch();
  for (const Address& a : table_->addresses()) {
    if (a.address != gid("2001:db8::3")) continue;
    EXPECT_EQ(a.tentative, a.ifindex == link("left").ifindex);
  }
}

TEST_F(RouteTableTest, event_without_a_change_is_not_told) {
  table_->dispatch();
  changes_ = 0;
  ip("link set left mtu 4200");
  ip("link set left alias something");
  table_->dispatch();
  EXPECT_EQ(changes_, 0);
}

TEST_F(RouteTableTest, many_changes_are_told_once) {
  // DAD of the veth pair's link-local addresses must not mix in.
  ip("link set left down");
  ip("link set right down");
  table_->dispatch();
  changes_ = 0;
  for (int i = 10; i < 30; ++i) ip("address add 198.51.100." + std::to_string(i) + "/24 dev left");
  table_->dispatch();
  EXPECT_EQ(changes_, 1);
  EXPECT_TRUE(has_address("198.51.100.29"));
}

TEST_F(RouteTableTest, lost_events_lead_to_a_fresh_look) {
  const int small = 1;
  setsockopt(table_->descriptor(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  for (int i = 0; i < 20; ++i) ip("link add many" + std::to_string(i) + " type veth");
  table_->dispatch();
  EXPECT_NE(table_->find_link("many19"), nullptr);
}

TEST_F(RouteTableTest, route_on_link_and_through_a_gateway) {
  ip("route add 203.0.113.0/24 via 192.0.2.254");
  const auto near = table_->route(gid("192.0.2.7"), {}, 0);
  ASSERT_TRUE(near) << std::strerror(errno);
  EXPECT_EQ(near->ifindex, link("left").ifindex);
  EXPECT_EQ(near->source, gid("192.0.2.1"));
  EXPECT_EQ(near->next_hop, gid("192.0.2.7"));
  EXPECT_FALSE(near->local);
  const auto far = table_->route(gid("203.0.113.5"), {}, 0);
  ASSERT_TRUE(far) << std::strerror(errno);
  EXPECT_EQ(far->next_hop, gid("192.0.2.254"));
}

TEST_F(RouteTableTest, ipv6_route) {
  ip("route add 2001:db8:1::/64 via 2001:db8::fe dev left");
  const auto far = table_->route(gid("2001:db8:1::5"), {}, 0);
  ASSERT_TRUE(far) << std::strerror(errno);
  EXPECT_EQ(far->next_hop, gid("2001:db8::fe"));
  EXPECT_EQ(far->source, gid("2001:db8::1"));
  const auto from = table_->route(gid("2001:db8::9"), gid("2001:db8::1"), link("left").ifindex);
  ASSERT_TRUE(from) << std::strerror(errno);
  EXPECT_EQ(from->source, gid("2001:db8::1"));
}

TEST_F(RouteTableTest, link_local_destination_needs_the_netdev) {
  const auto route = table_->route(gid("fe80::1234"), {}, link("left").ifindex);
  ASSERT_TRUE(route) << std::strerror(errno);
  EXPECT_EQ(route->ifindex, link("left").ifindex);
  EXPECT_EQ(route->next_hop, gid("fe80::1234"));
}

TEST_F(RouteTableTest, ipv4_route_may_lead_through_an_ipv6_neighbour) {
  ip("route add 203.0.113.0/24 via inet6 2001:db8::fe dev left");
  const auto route = table_->route(gid("203.0.113.5"), {}, 0);
  ASSERT_TRUE(route) << std::strerror(errno);
  EXPECT_EQ(route->next_hop, gid("2001:db8::fe"));
}

TEST_F(RouteTableTest, own_address_is_local) {
  for (const char* own : {"192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"}) {
    EXPECT_TRUE(is_local_soon(gid(own))) << own << ": " << std::strerror(errno);
  }
}

TEST_F(RouteTableTest, no_route_says_why) {
  errno = 0;
  EXPECT_FALSE(table_->route(gid("203.0.113.5"), {}, 0));
  EXPECT_EQ(errno, ENETUNREACH);
  ip("route add unreachable 203.0.113.0/24");
  errno = 0;
  EXPECT_FALSE(table_->route(gid("203.0.113.5"), {}, 0));
  EXPECT_EQ(errno, EHOSTUNREACH);
  errno = 0;
  EXPECT_FALSE(table_->route(gid("2001:db8::9"), gid("192.0.2.1"), 0));
  EXPECT_EQ(errno, EAFNOSUPPORT);
}

TEST_F(RouteTableTest, neighbour_is_known_while_it_is_valid) {
  const uint32_t left = link("left").ifindex;
  EXPECT_FALSE(table_->neighbour(gid("192.0.2.7"), left));
  ip("neighbour add 192.0.2.7 lladdr 02:00:00:00:00:77 dev left nud permanent");
  ip("neighbour add 2001:db8::7 lladdr 02:00:00:00:00:78 dev left nud stale");
  ip("neighbour add 192.0.2.8 lladdr 02:00:00:00:00:79 dev left nud failed");
  EXPECT_EQ(table_->neighbour(gid("192.0.2.7"), left), (std::array<uint8_t, 6>{2, 0, 0, 0, 0, 0x77}));
  EXPECT_EQ(table_->neighbour(gid("2001:db8::7"), left), (std::array<uint8_t, 6>{2, 0, 0, 0, 0, 0x78}));
  EXPECT_FALSE(table_->neighbour(gid("192.0.2.8"), left));
  EXPECT_FALSE(table_->neighbour(gid("192.0.2.7"), link("right").ifindex));
}

}  // namespace
}  // namespace uroce::netlink
