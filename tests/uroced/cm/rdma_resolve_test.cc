// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/uroced/cm/rdma_world.h"

namespace uroce::cm {
namespace {

using test::RdmaWorld;
using test::Side;

constexpr uint32_t kTimeoutMs = 2000;

// Of a, without a source.
int resolve(RdmaWorld& w, uint32_t id, const Address& destination, const Address& source = {}) {
  const int error = w.a.cm.resolve_address(w.now, id, source, destination, kTimeoutMs, false);
  w.deliver();
  return error;
}

Address ipv4_group() {
  wire::Gid g;
  g.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 1, 1};
  return Address::of(g, 0);
}

TEST(RdmaResolve, finds_source_device_and_port) {
  RdmaWorld w;
  const uint32_t id = w.a.create();
  EXPECT_EQ(resolve(w, id, w.b.ip4), 0);
  EXPECT_EQ(w.a.expect(EventKind::address_resolved).status, 0);
  const CmId& found = *w.a.cm.find(id);
  EXPECT_EQ(found.state, IdState::address_resolved);
  EXPECT_EQ(found.source.ip, w.a.ip4.ip);
  EXPECT_GE(found.source.port, 32768);
  EXPECT_EQ(found.destination, w.b.ip4);
  EXPECT_EQ(found.port->device, 7u);
  EXPECT_EQ(found.route.path.destination, w.b.ip4.ip);
  EXPECT_EQ(found.route.path.ifindex, 2u);
  // The port table knows the address: a wildcard would not share the port, another address does.
  const uint32_t other = w.a.create();
  EXPECT_EQ(w.a.cm.bind(other, Address::of(w.a.host.own[4].ip, found.source.port), false), 0);
}

TEST(RdmaResolve, a_neighbour_is_asked_until_it_answers) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::asked;
  const uint32_t id = w.a.create();
  EXPECT_EQ(resolve(w, id, w.b.ip4), 0);
  w.advance_ms(100);
  EXPECT_TRUE(w.a.quiet());
  EXPECT_EQ(w.a.state(id), IdState::address_query);
  EXPECT_EQ(w.a.host.asked_neighbours, 6);  // every 20 ms
  w.a.host.peers = Neighbour::reachable;
  w.advance_ms(20);
  w.a.expect(EventKind::address_resolved);
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
}

TEST(RdmaResolve, a_neighbour_that_never_answers_is_a_timeout) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::asked;
  const uint32_t id = w.a.create();
  EXPECT_EQ(resolve(w, id, w.b.ip4), 0);
  w.advance_ms(kTimeoutMs - 1);
  EXPECT_TRUE(w.a.quiet());
  w.advance_ms(1);
  EXPECT_EQ(w.a.expect(EventKind::address_error).status, -ETIMEDOUT);
  EXPECT_EQ(w.a.state(id), IdState::address_bound);
  // It may try again, and has kept its port.
  const uint16_t port = w.a.cm.find(id)->source.port;
  w.a.host.peers = Neighbour::reachable;
  EXPECT_EQ(resolve(w, id, w.b.ip4), 0);
  w.a.expect(EventKind::address_resolved);
  EXPECT_EQ(w.a.cm.find(id)->source.port, port);
}

TEST(RdmaResolve, a_neighbour_that_cannot_be_asked_is_an_event) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::impossible;
  EXPECT_EQ(resolve(w, w.a.create(), w.b.ip4), 0);
  EXPECT_EQ(w.a.expect(EventKind::address_error).status, -EHOSTUNREACH);
}

TEST(RdmaResolve, no_way_is_said_at_once) {
  RdmaWorld w;
  w.a.host.no_way = ENETUNREACH;
  const uint32_t id = w.a.create();
  EXPECT_EQ(resolve(w, id, w.b.ip4), ENETUNREACH);
  EXPECT_TRUE(w.a.quiet());
  EXPECT_EQ(w.a.state(id), IdState::address_bound);
  EXPECT_EQ(w.a.cm.find(id)->destination, Address{});
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
}

TEST(RdmaResolve, a_way_that_is_lost_while_a_neighbour_is_asked_is_an_event) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::asked;
  EXPECT_EQ(resolve(w, w.a.create(), w.b.ip4), 0);
  w.a.host.no_way = EHOSTUNREACH;
  w.advance_ms(20);
  EXPECT_EQ(w.a.expect(EventKind::address_error).status, -EHOSTUNREACH);
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
}

TEST(RdmaResolve, a_way_by_a_netdev_without_device_is_an_event) {
  RdmaWorld w;
  std::swap(w.a.host.own[0], w.a.host.own[3]);  // the first netdev is the one without
  const uint32_t id = w.a.create();
  EXPECT_EQ(resolve(w, id, w.b.ip4), 0);
  EXPECT_EQ(w.a.expect(EventKind::address_error).status, -ENODEV);
  EXPECT_TRUE(w.a.cm.find(id)->source.is_any());
}

TEST(RdmaResolve, an_own_address_is_reached_without_neighbours) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::impossible;
  const uint32_t id = w.a.create();
  EXPECT_EQ(resolve(w, id, w.a.ip4), 0);
  w.a.expect(EventKind::address_resolved);
  EXPECT_EQ(w.a.cm.find(id)->source.ip, w.a.ip4.ip);
  EXPECT_EQ(w.a.cm.find(id)->port->device, 7u);
}

TEST(RdmaResolve, the_wildcard_is_this_machine) {
  RdmaWorld w;
  for (const uint16_t family : {AF_INET, AF_INET6}) {
    const uint32_t id = w.a.create();
    EXPECT_EQ(resolve(w, id, Address::any(family)), 0);
    w.a.expect(EventKind::address_resolved);
    EXPECT_EQ(w.a.cm.find(id)->destination.ip, (family == AF_INET ? w.a.ip4 : w.a.ip6).ip);
    EXPECT_EQ(w.a.cm.find(id)->source.ip, w.a.cm.find(id)->destination.ip);
  }
  const uint32_t bound = w.a.create();
  const Address other = Address::of(w.a.host.own[4].ip, 0);
  EXPECT_EQ(resolve(w, bound, Address::any(AF_INET), other), 0);
  w.a.expect(EventKind::address_resolved);
  EXPECT_EQ(w.a.cm.find(bound)->destination.ip, other.ip);
  w.a.host.own.clear();
  const uint32_t lonely = w.a.create();
  EXPECT_EQ(resolve(w, lonely, Address::any(AF_INET)), ENODEV);
  EXPECT_EQ(w.a.state(lonely), IdState::address_bound);
}

TEST(RdmaResolve, a_group_has_no_neighbour) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::impossible;
  EXPECT_EQ(resolve(w, w.a.create(RDMA_PS_UDP), ipv4_group()), 0);
  w.a.expect(EventKind::address_resolved);
}

TEST(RdmaResolve, a_group_is_reached_by_the_netdev_of_the_source) {
  RdmaWorld w;
  const uint32_t id = w.a.create(RDMA_PS_UDP);
  EXPECT_EQ(resolve(w, id, ipv4_group(), Address::of(w.a.host.own[4].ip, 0)), 0);
  w.a.expect(EventKind::address_resolved);
  EXPECT_EQ(w.a.host.asked_netdev, 4u);
  EXPECT_EQ(w.a.cm.find(id)->port->device, 8u);
}

TEST(RdmaResolve, link_local_addresses_are_meant_on_a_netdev) {
  RdmaWorld w;
  Address there = w.b.link_local;
  there.scope = 0;
  EXPECT_EQ(resolve(w, w.a.create(), there), EINVAL);
  there.scope = 4;
  const uint32_t by_destination = w.a.create(), by_source = w.a.create(), to_itself = w.a.create();
  EXPECT_EQ(resolve(w, by_destination, there), 0);
  w.a.expect(EventKind::address_resolved);
  EXPECT_EQ(w.a.cm.find(by_destination)->port->device, 8u);
  EXPECT_EQ(w.a.cm.find(by_destination)->source.scope, 4u);

  Address from = w.a.link_local;
  from.scope = 4;
  from.port = 0;
  there.scope = 0;
  EXPECT_EQ(resolve(w, by_source, there, from), 0);
  w.a.expect(EventKind::address_resolved);
  EXPECT_EQ(w.a.host.asked_netdev, 4u);
  EXPECT_EQ(w.a.cm.find(by_source)->port->device, 8u);

  // Both netdevs have this address.
  Address own = w.a.link_local;
  own.scope = 4;
  EXPECT_EQ(resolve(w, to_itself, own), 0);
  w.a.expect(EventKind::address_resolved);
  EXPECT_EQ(w.a.cm.find(to_itself)->port->device, 8u);
}

TEST(RdmaResolve, families_must_fit) {
  RdmaWorld w;
  EXPECT_EQ(resolve(w, w.a.create(), w.b.ip6, w.a.ip4), EINVAL);
  const uint32_t bound = w.a.create();
  ASSERT_EQ(w.a.cm.bind(bound, w.a.ip6, false), 0);
  EXPECT_EQ(resolve(w, bound, w.b.ip4), EINVAL);
  EXPECT_EQ(w.a.state(bound), IdState::address_bound);
  EXPECT_EQ(resolve(w, bound, w.b.ip6), 0);
  Address ib = w.b.ip6, none, mapped = w.b.ip4;
  ib.family = kAfIb;
  mapped.family = AF_INET6;
  EXPECT_EQ(resolve(w, w.a.create(), ib), ENODEV);
  EXPECT_EQ(resolve(w, w.a.create(), none), EAFNOSUPPORT);
  EXPECT_EQ(resolve(w, w.a.create(), mapped), ENETUNREACH);
}

TEST(RdmaResolve, the_source_is_bound_as_by_bind) {
  RdmaWorld w;
  const uint32_t id = w.a.create();
  EXPECT_EQ(resolve(w, id, w.b.ip4, w.b.ip4), EADDRNOTAVAIL);
  EXPECT_EQ(resolve(w, id, w.b.ip4, test::at(w.a.ip4, 80)), EACCES);
  EXPECT_EQ(w.a.state(id), IdState::idle);
  EXPECT_EQ(resolve(w, id, w.b.ip4, w.a.ip4), 0);
  EXPECT_EQ(w.a.cm.find(id)->source, w.a.ip4);
}

TEST(RdmaResolve, in_other_states_is_refused) {
  RdmaWorld w;
  const uint32_t id = w.routed(w.b.ip4);
  EXPECT_EQ(resolve(w, id, w.b.ip4), EINVAL);
  EXPECT_EQ(w.a.cm.resolve_route(id), EINVAL);
  EXPECT_EQ(resolve(w, w.a.listener(w.a.ip4), w.b.ip4), EINVAL);
  EXPECT_EQ(w.a.cm.resolve_route(w.a.create()), EINVAL);
  w.a.host.peers = Neighbour::asked;
  const uint32_t asking = w.a.create();
  ASSERT_EQ(resolve(w, asking, w.b.ip4), 0);
  EXPECT_EQ(resolve(w, asking, w.b.ip4), EINVAL);
}

TEST(RdmaRoute, has_the_mtu_of_the_device_and_the_last_tos) {
  RdmaWorld w;
  const uint32_t id = w.a.create();
  ASSERT_EQ(resolve(w, id, w.b.ip4), 0);
  const std::byte tos[] = {std::byte{0x68}};
  ASSERT_EQ(w.a.cm.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, tos), 0);
  ASSERT_EQ(w.a.cm.resolve_route(id), 0);
  EXPECT_EQ(w.a.state(id), IdState::route_resolved);
  EXPECT_TRUE(w.a.cm.find(id)->routed);
  EXPECT_EQ(w.a.cm.find(id)->path_mtu, 4);
  EXPECT_EQ(w.a.cm.find(id)->route.path.traffic_class, 0x68);
}

}  // namespace
}  // namespace uroce::cm
