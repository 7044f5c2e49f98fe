// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/uroced/cm/rdma_world.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce::cm::test {
namespace {

constexpr uint32_t kLoopback = 1;

wire::Gid ipv4(uint8_t net, uint8_t number) {
  wire::Gid g;
  g.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, net, 0, number};
  return g;
}

wire::Gid ipv6(uint8_t first, uint8_t second, uint8_t number) {
  wire::Gid g;
  g.raw[0] = first;
  g.raw[1] = second;
  g.raw[15] = number;
  return g;
}

bool same_kind(const wire::Gid& a, const wire::Gid& b) {
  return a.is_ipv4() == b.is_ipv4() && a.is_link_local() == b.is_link_local();
}

}  // namespace

FakeHost::FakeHost(uint8_t number) : number_(number) {
  own = {
      {ipv4(0, number), 2, 7},          {ipv6(0xfd, 0, number), 2, 7}, {ipv6(0xfe, 0x80, number), 2, 7},
      {ipv4(9, number), 3, 0},          {ipv4(1, number), 4, 8},       {ipv6(0xfd, 1, number), 4, 8},
      {ipv6(0xfe, 0x80, number), 4, 8},
  };
}

const FakeHost::Own* FakeHost::find(const wire::Gid& ip, uint32_t ifindex) const {
  for (const Own& entry : own) {
    if (entry.ip == ip && (ifindex == 0 || entry.ifindex == ifindex)) return &entry;
  }
  return nullptr;
}

std::optional<LocalPort> FakeHost::port_of(const wire::Gid& ip, uint32_t ifindex) const {
  const Own* entry = find(ip, ifindex);
  if (entry == nullptr || entry->device == 0) return std::nullopt;
  return LocalPort{entry->device, entry->ifindex, static_cast<uint8_t>(entry - own.data())};
}

bool FakeHost::is_own_address(const wire::Gid& ip, uint32_t ifindex) const {
  return find(ip, ip.is_link_local() ? ifindex : 0) != nullptr;
}

DeviceView FakeHost::device(uint32_t position) const {
  EXPECT_TRUE(position == 7 || position == 8);
  return {__builtin_bswap64(uint64_t{number_} << 8 | position), position + 100, 4, ca_ack_delay};
}

std::optional<wire::Gid> FakeHost::first_address(bool is_ipv4) const {
  for (const Own& entry : own) {
    if (entry.device != 0 && entry.ip.is_ipv4() == is_ipv4 && !entry.ip.is_link_local()) return entry.ip;
  }
  return std::nullopt;
}

std::optional<Way> FakeHost::way_to(const wire::Gid& destination, const wire::Gid& source,
                                    uint32_t ifindex) const {
  asked_netdev = ifindex;
  if (no_way != 0) {
    errno = no_way;
    return std::nullopt;
  }
  if (find(destination, ifindex) != nullptr)
    return Way{source.is_zero() ? destination : source, destination, kLoopback, true};
  // By the netdev that is asked for, or the first.
  for (const Own& entry : own) {
    if (!same_kind(entry.ip, destination) && !destination.is_multicast()) continue;
    if (entry.ip.is_ipv4() != destination.is_ipv4() || (ifindex != 0 && entry.ifindex != ifindex)) continue;
    return Way{source.is_zero() ? entry.ip : source, destination, entry.ifindex, false};
  }
  errno = ENETUNREACH;
  return std::nullopt;
}

Neighbour FakeHost::neighbour(const Way&) {
  ++asked_neighbours;
  return peers;
}

Side::Side(uint8_t number)
    : host(number),
      cm(host, number),
      ip4(Address::of(host.own[0].ip, 7471)),
      ip6(Address::of(host.own[1].ip, 7471)),
      link_local(Address::of(host.own[2].ip, 7471)) {
  link_local.scope = 2;
}

uint32_t Side::create(uint16_t port_space, QpType type) {
  uint32_t id = 0;
  EXPECT_EQ(cm.create(port_space, static_cast<uint8_t>(type), id), 0);
  return id;
}

uint32_t Side::listener(const Address& address, uint16_t port_space, QpType type) {
  const uint32_t id = create(port_space, type);
  EXPECT_EQ(cm.bind(id, address, true), 0);
  EXPECT_EQ(cm.listen(id), 0);
  return id;
}

IdEvent Side::expect(EventKind kind) {
  if (events.empty()) {
    ADD_FAILURE() << "no event";
    return {};
  }
  const IdEvent event = events.front();
  events.erase(events.begin());
  EXPECT_EQ(static_cast<int>(event.kind), static_cast<int>(kind));
  return event;
}

void RdmaWorld::collect() {
  for (Side* side : {&a, &b}) {
    while (const std::optional<IdEvent> event = side->cm.poll_event()) side->events.push_back(*event);
  }
}

bool RdmaWorld::carry(Side& from) {
  const std::optional<Outgoing> out = from.cm.poll_transmit();
  if (!out) return false;
  Side& peer = &from == &a ? b : a;
  const engine::Path& path = out->route.path;
  Side& to = from.host.port_of(path.destination, 0) ? from : peer;
  const auto port = to.host.port_of(path.destination, path.destination.is_link_local() ? path.ifindex : 0);
  if (!carries(out->mad, port.has_value())) return true;
  Route route;
  route.device = port->device;
  route.path.source = path.destination;
  route.path.destination = path.source;
  route.path.ifindex = port->ifindex;
  to.cm.on_mad(now, route, out->mad);
  return true;
}

void RdmaWorld::deliver() {
  while (carry(a) || carry(b)) {
  }
  collect();
}

void RdmaWorld::inject(Side& to, const Side& from, const wire::CmMessage& message) {
  wire::Mad mad;
  wire::write_cm(message, 99, mad);
  Route route;
  route.device = 7;
  route.path.source = to.ip4.ip;
  route.path.destination = from.ip4.ip;
  route.path.ifindex = 2;
  to.cm.on_mad(now, route, mad);
  deliver();
}

uint32_t RdmaWorld::routed(const Address& destination, uint16_t port_space, QpType type) {
  const uint32_t id = a.create(port_space, type);
  EXPECT_EQ(a.cm.resolve_address(now, id, {}, destination, 2000, false), 0);
  deliver();
  EXPECT_EQ(a.expect(EventKind::address_resolved).id, id);
  EXPECT_EQ(a.cm.resolve_route(id), 0);
  deliver();
  EXPECT_EQ(a.expect(EventKind::route_resolved).id, id);
  return id;
}

RdmaWorld::Ends RdmaWorld::requested(uint16_t port_space, QpType type, QpType listener) {
  Ends ends;
  ends.listener = b.listener(b.ip4, port_space, listener);
  ends.active = routed(b.ip4, port_space, type);
  EXPECT_EQ(a.cm.connect(now, ends.active, parameters(0x111)), 0);
  deliver();
  request = b.expect(EventKind::connect_request);
  EXPECT_EQ(request.id, ends.listener);
  ends.passive = request.new_id;
  take_log();
  return ends;
}

RdmaWorld::Ends RdmaWorld::replied(QpType type, QpType listener) {
  const Ends ends = requested(type == QpType::rc ? RDMA_PS_TCP : RDMA_PS_IB, type, listener);
  const rdma_ucm_conn_param answer = parameters(0x222);
  EXPECT_EQ(b.cm.accept(now, ends.passive, &answer), 0);
  deliver();
  return ends;
}

RdmaWorld::Ends RdmaWorld::established() {
  const Ends ends = replied();
  EXPECT_EQ(a.expect(EventKind::connect_response).id, ends.active);
  EXPECT_EQ(a.cm.accept(now, ends.active, nullptr), 0);
  deliver();
  EXPECT_EQ(b.expect(EventKind::established).id, ends.passive);
  EXPECT_TRUE(a.quiet() && b.quiet());
  take_log();
  return ends;
}

Address at(const Address& address, uint16_t port) {
  Address out = address;
  out.port = port;
  return out;
}

rdma_ucm_conn_param parameters(uint32_t qpn, size_t private_bytes) {
  rdma_ucm_conn_param out{};
  out.valid = 1;
  out.qp_num = qpn;
  out.private_data_len = static_cast<uint8_t>(private_bytes);
  for (size_t i = 0; i < private_bytes; ++i) out.private_data[i] = static_cast<uint8_t>(i + 1);
  return out;
}

}  // namespace uroce::cm::test
