// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <cstring>

#include "tests/uroced/cm/rdma_world.h"

namespace uroce::cm {
namespace {

using test::at;
using test::parameters;
using test::RdmaWorld;

constexpr int kInvalidServiceId = 8, kUnsupported = 1;  // reject reason, SIDR status

// The next event of a, which wanted to connect to b.
IdEvent attempt(RdmaWorld& w, const Address& destination, uint16_t space = RDMA_PS_TCP,
                QpType type = QpType::rc) {
  EXPECT_EQ(w.a.cm.connect(w.now, w.routed(destination, space, type), parameters()), 0);
  w.deliver();
  if (w.a.quiet()) return {};
  const IdEvent event = w.a.events.front();
  w.a.events.clear();
  return event;
}

wire::CmReq request_of(const RdmaWorld& w, const Address& source, const Address& destination) {
  wire::CmReq req;
  req.local_id = 77;
  req.service_id = wire::ip_service_id(RDMA_PS_TCP, w.b.ip4.port);
  req.local_qpn = 0x111;
  req.primary.local_gid = w.a.ip4.ip;
  req.primary.remote_gid = w.b.ip4.ip;
  req.remote_response_timeout = req.local_response_timeout = 20;
  wire::CmIpHeader header;
  header.ipv4 = source.family == AF_INET;
  header.source_port = 4000;
  header.source = source.ip;
  header.destination = destination.ip;
  std::array<uint8_t, wire::kIpHeaderBytes> bytes{};
  wire::write_ip_header(header, bytes);
  EXPECT_TRUE(req.private_data.put(bytes));
  return req;
}

// ---- what a request becomes

TEST(RdmaRequest, makes_an_identifier_and_tells_the_listener) {
  RdmaWorld w;
  rdma_ucm_conn_param p = parameters(0x111);
  p.responder_resources = 3;
  p.initiator_depth = 5;
  p.flow_control = p.srq = 1;
  p.retry_count = 6;
  p.rnr_retry_count = 4;
  const uint32_t listener = w.b.listener(w.b.ip4);
  const std::byte tos[] = {std::byte{0x68}};
  ASSERT_EQ(w.b.cm.set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, tos), 0);
  const uint32_t active = w.routed(w.b.ip4);
  ASSERT_EQ(w.a.cm.connect(w.now, active, p), 0);
  w.deliver();
  const IdEvent told = w.b.expect(EventKind::connect_request);
  EXPECT_EQ(told.id, listener);
  EXPECT_FALSE(told.datagram);
  EXPECT_EQ(told.connection.qp_num, 0x111u);
  // What the other side can do is what this side may ask for.
  EXPECT_EQ(told.connection.responder_resources, 5);
  EXPECT_EQ(told.connection.initiator_depth, 3);
  EXPECT_EQ(told.connection.flow_control, 1);
  EXPECT_EQ(told.connection.srq, 1);
  EXPECT_EQ(told.connection.retry_count, 6);
  EXPECT_EQ(told.connection.rnr_retry_count, 4);

  const CmId& made = *w.b.cm.find(told.new_id);
  EXPECT_EQ(made.state, IdState::connect);
  EXPECT_EQ(made.source, w.b.ip4);
  EXPECT_EQ(made.destination, w.a.cm.find(active)->source);
  EXPECT_EQ(made.port->device, 7u);
  EXPECT_EQ(made.port_space, RDMA_PS_TCP);
  EXPECT_EQ(made.tos, 0x68);
  EXPECT_TRUE(made.routed);
  EXPECT_FALSE(made.has_port);  // the listener has it
}

TEST(RdmaRequest, its_identifier_does_not_hold_the_port) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.established();
  w.b.cm.destroy(w.now, ends.listener);
  w.b.listener(w.b.ip4);
  w.b.cm.destroy(w.now, ends.passive);
  EXPECT_EQ(w.b.cm.bind(w.b.create(), w.b.ip4, true), EADDRINUSE);
}

TEST(RdmaRequest, when_identifiers_run_out_is_refused) {
  RdmaWorld w;
  w.b.listener(w.b.ip4);
  while (w.b.cm.count() < RdmaCm::kMostIds) w.b.create();
  EXPECT_EQ(attempt(w, w.b.ip4).kind, EventKind::rejected);
  EXPECT_TRUE(w.b.quiet());
}

// ---- who is meant

TEST(RdmaListener, nobody_is_rejected_as_an_invalid_service) {
  RdmaWorld w;
  const IdEvent told = attempt(w, w.b.ip4);
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.status, kInvalidServiceId);
  const IdEvent datagram = attempt(w, w.b.ip4, RDMA_PS_UDP, QpType::ud);
  EXPECT_EQ(datagram.kind, EventKind::unreachable);
  EXPECT_EQ(datagram.status, kUnsupported);
  EXPECT_EQ(w.b.cm.count(), 0u);
}

TEST(RdmaListener, who_is_bound_and_does_not_listen_is_nobody) {
  RdmaWorld w;
  ASSERT_EQ(w.b.cm.bind(w.b.create(), w.b.ip4, true), 0);
  EXPECT_EQ(attempt(w, w.b.ip4).status, kInvalidServiceId);
}

TEST(RdmaListener, has_an_address_port_and_port_space) {
  RdmaWorld w;
  const Address other = at(Address::of(w.b.host.own[4].ip, 0), w.b.ip4.port);
  w.b.listener(w.b.ip4);
  EXPECT_EQ(attempt(w, other).status, kInvalidServiceId);
  EXPECT_EQ(attempt(w, at(w.b.ip4, w.b.ip4.port + 1)).status, kInvalidServiceId);
  EXPECT_EQ(attempt(w, w.b.ip4, RDMA_PS_IB).status, kInvalidServiceId);
  EXPECT_TRUE(w.b.quiet());
  const uint32_t there = w.b.listener(other);
  attempt(w, other);
  EXPECT_EQ(w.b.expect(EventKind::connect_request).id, there);
}

TEST(RdmaListener, has_a_type_of_queue_pair) {
  RdmaWorld w;
  w.b.listener(w.b.ip4, RDMA_PS_IB, QpType::xrc_tgt);
  for (const QpType type : {QpType::rc, QpType::uc})
    EXPECT_EQ(attempt(w, w.b.ip4, RDMA_PS_IB, type).status, kInvalidServiceId);
  EXPECT_EQ(attempt(w, w.b.ip4, RDMA_PS_IB, QpType::ud).status, kUnsupported);
  EXPECT_TRUE(w.b.quiet());
  attempt(w, w.b.ip4, RDMA_PS_IB, QpType::xrc_ini);
  w.b.expect(EventKind::connect_request);
}

TEST(RdmaListener, as_wildcard_is_meant_by_every_address_of_its_families) {
  RdmaWorld w;
  const uint16_t port = w.b.ip4.port;
  w.b.listener(at(Address::any(AF_INET), port));
  attempt(w, w.b.ip4);
  w.b.expect(EventKind::connect_request);
  attempt(w, at(Address::of(w.b.host.own[4].ip, 0), port));
  EXPECT_EQ(w.b.cm.find(w.b.expect(EventKind::connect_request).new_id)->port->device, 8u);
  EXPECT_EQ(attempt(w, w.b.ip6).status, kInvalidServiceId);  // IPv4 keeps to itself
}

TEST(RdmaListener, as_wildcard_of_ipv6_hears_ipv4_unless_told_otherwise) {
  for (const int own_only : {0, 1}) {
    RdmaWorld w;
    const uint32_t id = w.b.create();
    ASSERT_EQ(
        w.b.cm.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, std::as_bytes(std::span(&own_only, 1))),
        0);
    ASSERT_EQ(w.b.cm.bind(id, at(Address::any(AF_INET6), w.b.ip4.port), true), 0);
    ASSERT_EQ(w.b.cm.listen(id), 0);
    attempt(w, w.b.ip6);
    EXPECT_EQ(w.b.expect(EventKind::connect_request).id, id);
    const IdEvent answer = attempt(w, w.b.ip4);
    if (own_only != 0) {
      EXPECT_EQ(answer.status, kInvalidServiceId);
    } else {
      EXPECT_EQ(w.b.cm.find(w.b.expect(EventKind::connect_request).new_id)->source.family, AF_INET);
    }
  }
}

TEST(RdmaListener, wildcards_of_both_families_are_told_apart) {
  RdmaWorld w;
  const uint32_t ipv4 = w.b.listener(at(Address::any(AF_INET), w.b.ip4.port));
  const uint32_t ipv6 = w.b.create();
  const int own_only = 1;
  ASSERT_EQ(
      w.b.cm.set_option(ipv6, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, std::as_bytes(std::span(&own_only, 1))),
      0);
  ASSERT_EQ(w.b.cm.bind(ipv6, at(Address::any(AF_INET6), w.b.ip4.port), true), 0);
  ASSERT_EQ(w.b.cm.listen(ipv6), 0);
  attempt(w, w.b.ip4);
  EXPECT_EQ(w.b.expect(EventKind::connect_request).id, ipv4);
  attempt(w, w.b.ip6);
  EXPECT_EQ(w.b.expect(EventKind::connect_request).id, ipv6);
}

TEST(RdmaListener, on_a_link_local_address_is_meant_on_its_netdev) {
  RdmaWorld w;
  Address second = w.b.link_local;
  second.scope = 4;
  w.b.listener(second);
  EXPECT_EQ(attempt(w, w.b.link_local).status, kInvalidServiceId);
  const uint32_t first = w.b.listener(w.b.link_local);
  attempt(w, w.b.link_local);
  const IdEvent told = w.b.expect(EventKind::connect_request);
  EXPECT_EQ(told.id, first);
  EXPECT_EQ(w.b.cm.find(told.new_id)->source.scope, 2u);
  EXPECT_EQ(w.b.cm.find(told.new_id)->destination.scope, 2u);
}

// Otherwise whoever can send a packet could be anybody to the listener.
TEST(RdmaListener, hears_nothing_from_who_names_addresses_that_are_not_the_packets) {
  RdmaWorld w;
  w.b.listener(at(Address::any(AF_INET6), w.b.ip4.port));
  const Address stranger = Address::of(w.b.host.own[3].ip, 0);
  w.inject(w.b, w.a, request_of(w, stranger, w.b.ip4));
  EXPECT_EQ(w.take_log(), "REJ");
  w.inject(w.b, w.a, request_of(w, w.a.ip4, stranger));
  EXPECT_EQ(w.take_log(), "REJ");
  w.inject(w.b, w.a, request_of(w, w.a.ip6, w.b.ip6));
  EXPECT_EQ(w.take_log(), "REJ");
  EXPECT_TRUE(w.b.quiet());
  w.inject(w.b, w.a, request_of(w, w.a.ip4, w.b.ip4));
  w.b.expect(EventKind::connect_request);
}

TEST(RdmaListener, hears_nothing_from_who_names_no_addresses) {
  RdmaWorld w;
  w.b.listener(w.b.ip4);
  wire::CmReq req = request_of(w, w.a.ip4, w.b.ip4);
  req.private_data = {};
  w.inject(w.b, w.a, req);
  EXPECT_EQ(w.take_log(), "REJ");
  req = request_of(w, w.a.ip4, w.b.ip4);
  req.service_id |= uint64_t{1} << 32;  // another way to name services
  w.inject(w.b, w.a, req);
  EXPECT_EQ(w.take_log(), "REJ");
  wire::CmSidrReq sidr;
  sidr.service_id = wire::ip_service_id(RDMA_PS_UDP, w.b.ip4.port);
  w.inject(w.b, w.a, sidr);
  EXPECT_EQ(w.take_log(), "SIDR_REP");
  EXPECT_TRUE(w.b.quiet());
  EXPECT_EQ(w.b.cm.count(), 1u);
}

// ---- what a reply becomes

TEST(RdmaReply, tells_what_the_other_side_can_do) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested();
  rdma_ucm_conn_param p = parameters(0x222, 3);
  p.responder_resources = 2;
  p.initiator_depth = 9;
  p.flow_control = p.srq = 1;
  p.rnr_retry_count = 5;
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, &p), 0);
  w.deliver();
  const rdma_ucm_conn_param told = w.a.expect(EventKind::connect_response).connection;
  EXPECT_EQ(told.qp_num, 0x222u);
  EXPECT_EQ(told.responder_resources, 9);
  EXPECT_EQ(told.initiator_depth, 2);
  EXPECT_EQ(told.flow_control, 1);
  EXPECT_EQ(told.srq, 1);
  EXPECT_EQ(told.rnr_retry_count, 5);
  EXPECT_EQ(told.private_data_len, 196);
  EXPECT_EQ(told.private_data[2], 3);
}

// ---- events out of season

TEST(RdmaEvents, the_end_may_come_before_the_beginning) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.replied();
  w.a.expect(EventKind::connect_response);
  w.lose = test::is<wire::CmRtu>;
  ASSERT_EQ(w.a.cm.accept(w.now, ends.active, nullptr), 0);
  ASSERT_EQ(w.a.cm.disconnect(w.now, ends.active), 0);
  w.deliver();
  EXPECT_EQ(w.b.expect(EventKind::disconnected).id, ends.passive);
  EXPECT_EQ(w.b.state(ends.passive), IdState::disconnect);
  EXPECT_TRUE(w.b.quiet());
}

TEST(RdmaEvents, of_identifiers_that_are_gone_are_told_to_nobody) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.established();
  w.a.cm.destroy(w.now, ends.active);
  w.b.cm.destroy(w.now, ends.passive);
  w.advance_ms(600'000);
  EXPECT_TRUE(w.a.quiet() && w.b.quiet());
}

// ---- multicast

Address group_address(uint8_t last) {
  wire::Gid g;
  g.raw = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return Address::of(g, 0);
}

TEST(RdmaJoin, tells_where_to_send_at_once) {
  RdmaWorld w;
  const uint32_t id = w.a.create(RDMA_PS_UDP);
  ASSERT_EQ(w.a.cm.bind(id, w.a.ip6, false), 0);
  uint32_t first = 0, second = 0;
  EXPECT_EQ(w.a.cm.join(id, group_address(1), first), 0);
  EXPECT_EQ(w.a.cm.join(id, group_address(2), second), 0);
  EXPECT_NE(first, second);
  w.deliver();
  for (const auto& [group, last] : {std::pair(first, 1), {second, 2}}) {
    const IdEvent told = w.a.expect(EventKind::multicast_join);
    EXPECT_EQ(told.id, id);
    EXPECT_EQ(told.group, group);
    EXPECT_TRUE(told.datagram);
    EXPECT_EQ(told.ud.qp_num, 0xffffffu);
    EXPECT_EQ(told.ud.qkey, kUdpQkey);
    EXPECT_EQ(std::memcmp(told.ud.ah_attr.grh.dgid, group_address(last).ip.raw.data(), 16), 0);
    EXPECT_EQ(told.ud.ah_attr.grh.sgid_index, w.a.cm.find(id)->port->gid_index);
    EXPECT_NE(told.ud.ah_attr.dlid, 0);
  }
  EXPECT_EQ(w.a.cm.find(id)->groups.size(), 2u);
  EXPECT_EQ(w.take_log(), "");
}

TEST(RdmaJoin, the_key_is_that_of_the_port_space) {
  RdmaWorld w;
  const uint32_t id = w.routed(w.b.ip4, RDMA_PS_UDP), ipoib = w.a.create(RDMA_PS_IPOIB);
  ASSERT_EQ(w.a.cm.bind(ipoib, at(w.a.ip4, 0), false), 0);
  uint32_t group = 0;
  EXPECT_EQ(w.a.cm.join(id, group_address(1), group), EINVAL);  // the route is resolved
  EXPECT_EQ(w.a.cm.join(ipoib, group_address(1), group), 0);
  w.deliver();
  EXPECT_EQ(w.a.expect(EventKind::multicast_join).ud.qkey, 0u);
}

TEST(RdmaJoin, needs_a_device_datagrams_and_a_group) {
  RdmaWorld w;
  uint32_t group = 0;
  const uint32_t unbound = w.a.create(RDMA_PS_UDP), wildcard = w.a.create(RDMA_PS_UDP);
  EXPECT_EQ(w.a.cm.join(unbound, group_address(1), group), EINVAL);
  ASSERT_EQ(w.a.cm.bind(wildcard, Address::any(AF_INET6), false), 0);
  EXPECT_EQ(w.a.cm.join(wildcard, group_address(1), group), EINVAL);
  const uint32_t reliable = w.a.create();
  ASSERT_EQ(w.a.cm.bind(reliable, w.a.ip6, false), 0);
  EXPECT_EQ(w.a.cm.join(reliable, group_address(1), group), EINVAL);
  const uint32_t datagram = w.a.create(RDMA_PS_UDP);
  ASSERT_EQ(w.a.cm.bind(datagram, w.a.ip6, false), 0);
  EXPECT_EQ(w.a.cm.join(datagram, w.b.ip6, group), EINVAL);
  w.deliver();
  EXPECT_TRUE(w.a.quiet());
}

TEST(RdmaLeave, is_for_members_and_takes_the_event_along) {
  RdmaWorld w;
  const uint32_t id = w.a.create(RDMA_PS_UDP), other = w.a.create(RDMA_PS_UDP);
  ASSERT_EQ(w.a.cm.bind(id, w.a.ip6, false), 0);
  uint32_t first = 0, second = 0;
  ASSERT_EQ(w.a.cm.join(id, group_address(1), first), 0);
  ASSERT_EQ(w.a.cm.join(id, group_address(2), second), 0);
  EXPECT_EQ(w.a.cm.leave(other, first), ENOENT);
  EXPECT_EQ(w.a.cm.leave(id, second + 1), ENOENT);
  EXPECT_EQ(w.a.cm.leave(id, first), 0);
  EXPECT_EQ(w.a.cm.leave(id, first), ENOENT);
  w.deliver();
  EXPECT_EQ(w.a.expect(EventKind::multicast_join).group, second);
  EXPECT_TRUE(w.a.quiet());
}

}  // namespace
}  // namespace uroce::cm
