// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/cm_host.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <fstream>

#include "kmod-shim/uapi/uroce_abi.h"
#include "tools/uroced/fd.h"

namespace uroce::daemon {

namespace {

// Any datagram makes the kernel look for the next hop; the discard port is where nobody minds.
void provoke(const cm::Way& way) {
  constexpr uint16_t kDiscardPort = 9;
  const bool ipv4 = way.next_hop.is_ipv4();
  const Fd fd(socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return;
  if (ipv4) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kDiscardPort);
    to.sin_addr.s_addr = way.next_hop.ipv4_be();
    sendto(fd.get(), nullptr, 0, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } else {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(kDiscardPort);
    to.sin6_scope_id = way.ifindex;
    std::memcpy(&to.sin6_addr, way.next_hop.raw.data(), sizeof to.sin6_addr);
    sendto(fd.get(), nullptr, 0, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
}

}  // namespace

std::optional<cm::LocalPort> CmHost::port_of(const wire::Gid& ip, uint32_t ifindex) const {
  std::optional<cm::LocalPort> found;
  devices_.for_each([&](uint32_t position) {
    const std::span<const uroce_gid_entry> gids(registry_.device(position).gids);
    for (size_t i = 0; i < gids.size() && !found; ++i) {
      const uroce_gid_entry& entry = gids[i];
      if (std::memcmp(entry.gid, ip.raw.data(), sizeof entry.gid) != 0) continue;
      if (ifindex != 0 && entry.ifindex != ifindex) continue;
      found = cm::LocalPort{position, entry.ifindex, static_cast<uint8_t>(i)};
    }
  });
  return found;
}

bool CmHost::is_own_address(const wire::Gid& ip, uint32_t ifindex) const {
  for (const netlink::Address& address : routes_.addresses()) {
    if (address.address == ip && (ifindex == 0 || !ip.is_link_local() || address.ifindex == ifindex))
      return true;
  }
  return false;
}

cm::DeviceView CmHost::device(uint32_t position) const {
  constexpr uint8_t kAckDelay = 15;  // as query_device says
  const DeviceRecord& record = registry_.device(position);
  const netlink::Link* link = routes_.find_link(record.ifindex);
  return {record.node_guid_be, record.index, link == nullptr ? uint8_t{0} : active_mtu(link->mtu), kAckDelay};
}

std::optional<wire::Gid> CmHost::first_address(bool ipv4) const {
  std::optional<wire::Gid> found;
  devices_.for_each([&](uint32_t position) {
    for (const uroce_gid_entry& entry : registry_.device(position).gids) {
      wire::Gid gid;
      std::memcpy(gid.raw.data(), entry.gid, sizeof entry.gid);
      if (!found && !gid.is_zero() && gid.is_ipv4() == ipv4 && !gid.is_link_local()) found = gid;
    }
  });
  return found;
}

std::optional<cm::Way> CmHost::way_to(const wire::Gid& destination, const wire::Gid& source,
                                      uint32_t ifindex) const {
  const auto route = routes_.route(destination, source, ifindex);
  if (!route) return std::nullopt;
  return cm::Way{route->source, route->next_hop, route->ifindex, route->local};
}

cm::Neighbour CmHost::neighbour(const cm::Way& way) {
  const netlink::Link* link = routes_.find_link(way.ifindex);
  if (link == nullptr) return cm::Neighbour::impossible;
  if (link->loopback || link->mac.empty()) return cm::Neighbour::reachable;
  if (routes_.neighbour(way.next_hop, way.ifindex)) return cm::Neighbour::reachable;
  provoke(way);
  return cm::Neighbour::asked;
}

cm::PortTable::Range CmHost::ephemeral_ports() const {
  cm::PortTable::Range range;
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  uint32_t first = 0, last = 0;
  if (file >> first >> last && first != 0 && first <= last && last <= 0xffff)
    range = {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
  return range;
}

}  // namespace uroce::daemon
