// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// From a destination to a device, a source address and a way.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "tools/uroced/cm/rdma_cm.h"

namespace uroce::cm {

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kAskAgain = 20 * kMs;  // how often it is looked whether a neighbour has answered

// The netdev that link-local addresses of this identifier are meant on.
uint32_t scope_of(const CmId& id) {
  return id.destination.scope != 0 ? id.destination.scope : id.source.scope;
}

}  // namespace

int RdmaCm::resolve_address(Time now, uint32_t number, const Address& source, const Address& destination,
                            uint32_t timeout_ms, bool privileged) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (destination.family == kAfIb) return ENODEV;
  if (destination.family != AF_INET && destination.family != AF_INET6) return EAFNOSUPPORT;
  if (destination.family == AF_INET6 && destination.ip.is_ipv4()) return ENETUNREACH;  // ::ffff:a.b.c.d
  if (id->state == IdState::idle) {
    const Address from = source.family == AF_UNSPEC ? Address::any(destination.family) : source;
    if (const int error = bind_to(*id, from, privileged); error != 0) return error;
  }
  if (id->state != IdState::address_bound) return EINVAL;
  if (id->source.family != destination.family) return EINVAL;
  if (destination.ip.is_link_local() && destination.scope == 0 && id->source.scope == 0) return EINVAL;
  Address to = destination;
  if (destination.is_any()) {  // whoever listens on this machine
    const auto own = id->source.is_any() ? host_.first_address(destination.family == AF_INET)
                                         : std::optional(id->source.ip);
    if (!own) return ENODEV;
    to.ip = *own;
  }
  const Address before = std::exchange(id->destination, to);
  const auto way = find_way(*id);
  if (!way) {  // said at once, as the kernel does; what comes later is an event
    const int error = errno;
    id->destination = before;
    return error;
  }
  id->state = IdState::address_query;
  id->give_up_at = now + static_cast<int64_t>(timeout_ms) * kMs;
  querying_.push_back(number);
  follow_way(now, *id, *way);
  return 0;
}

std::optional<Way> RdmaCm::find_way(const CmId& id) const {
  if (id.source.is_any()) return host_.way_to(id.destination.ip, {}, scope_of(id));
  // The source says by which netdev, unless every netdev has such destinations.
  const uint32_t ifindex = id.destination.ip.is_link_local()  ? scope_of(id)
                           : id.destination.ip.is_multicast() ? id.port->ifindex
                                                              : 0;
  return host_.way_to(id.destination.ip, id.source.ip, ifindex);
}

void RdmaCm::continue_query(Time now, CmId& id) {
  const auto way = find_way(id);
  if (!way) return end_query(id, errno);
  follow_way(now, id, *way);
}

void RdmaCm::follow_way(Time now, CmId& id, const Way& way) {
  const wire::Gid source = id.source.is_any() ? way.source : id.source.ip;
  // A way to ourselves leaves by lo, but the device is the one that has the address.
  const uint32_t own_netdev = source.is_link_local() ? scope_of(id) : 0;
  const auto port = host_.port_of(source, way.local ? own_netdev : way.ifindex);
  if (!port) return end_query(id, ENODEV);
  if (!way.local && !id.destination.ip.is_multicast()) {
    switch (host_.neighbour(way)) {
      case Neighbour::reachable: break;
      case Neighbour::impossible: return end_query(id, EHOSTUNREACH);
      case Neighbour::asked:
        if (now >= id.give_up_at) return end_query(id, ETIMEDOUT);
        id.ask_again_at = std::min(id.give_up_at, now + kAskAgain);
        return;
    }
  }
  id.port = port;
  id.source.ip = source;
  if (source.is_link_local()) id.source.scope = port->ifindex;
  id.route.device = port->device;
  id.route.path.source = id.source.ip;
  id.route.path.destination = id.destination.ip;
  id.route.path.ifindex = port->ifindex;
  ports_.update(id.port_space, user_of(id));
  end_query(id, 0);
}

void RdmaCm::end_query(CmId& id, int error) {
  std::erase(querying_, id.number);
  id.state = error == 0 ? IdState::address_resolved : IdState::address_bound;
  emit(id.number, error == 0 ? EventKind::address_resolved : EventKind::address_error, -error);
}

int RdmaCm::resolve_route(uint32_t number) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (id->state != IdState::address_resolved) return EINVAL;
  id->route.path.traffic_class = id->tos;
  id->path_mtu = host_.device(id->port->device).active_mtu;
  id->routed = true;
  id->state = IdState::route_resolved;
  emit(number, EventKind::route_resolved);
  return 0;
}

void RdmaCm::on_deadline(Time now) {
  ib_.on_deadline(now);
  // continue_query() takes itself off the list.
  const std::vector<uint32_t> waiting = querying_;
  for (const uint32_t number : waiting) {
    CmId* id = edit(number);
    if (id != nullptr && now >= id->ask_again_at) continue_query(now, *id);
  }
  drain(now);
}

std::optional<Time> RdmaCm::next_deadline() const {
  std::optional<Time> next = ib_.next_deadline();
  for (const uint32_t number : querying_) {
    const Time at = find(number)->ask_again_at;
    if (!next || at < *next) next = at;
  }
  return next;
}

}  // namespace uroce::cm
