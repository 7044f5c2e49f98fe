// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Links, addresses, routes and neighbours of this network namespace, followed through rtnetlink
// (libnl-route-3). One thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "provider/wire/address.h"

namespace uroce::netlink {

struct Link {
  uint32_t ifindex = 0;
  std::string name;
  std::vector<uint8_t> mac;  // empty where the netdev has none (tun)
  uint32_t mtu = 0;
  bool up = false;       // IFF_UP
  bool running = false;  // carrier: IFF_LOWER_UP / operstate as the kernel's netif_carrier_ok
  bool loopback = false;
  std::string kind;            // "vlan", "bridge", "veth" ... or empty
  uint32_t lower_ifindex = 0;  // IFLA_LINK: real device of a VLAN or macvlan (0 when in another namespace)
  uint32_t master_ifindex = 0;
};

struct Address {
  uint32_t ifindex = 0;
  wire::Gid address;  // IPv4 as ::ffff:a.b.c.d
  uint8_t prefix = 0;
  bool tentative = false;  // IPv6 duplicate detection not over, or failed
};

struct RouteResult {
  uint32_t ifindex = 0;
  wire::Gid source;    // preferred source
  wire::Gid next_hop;  // gateway, or the destination itself
  bool local = false;  // the destination is one of our own addresses
};

class RouteTable {
 public:
  // Opens and subscribes; nullptr with `why`.
  static std::unique_ptr<RouteTable> open(std::string& why);
  virtual ~RouteTable() = default;

  virtual int descriptor() const = 0;  // readable: call dispatch()
  // Reads what is pending (bounded), then calls `changed` once if anything changed. A lost event (ENOBUFS)
  // leads to a fresh dump.
  virtual void dispatch() = 0;
  virtual void on_change(std::function<void()> changed) = 0;

  virtual const std::vector<Link>& links() const = 0;         // by ifindex
  virtual const std::vector<Address>& addresses() const = 0;  // in the kernel's order, stable
  virtual const Link* find_link(const std::string& name) const = 0;
  virtual const Link* find_link(uint32_t ifindex) const = 0;

  // As `ip route get DESTINATION [from SOURCE] [oif IFINDEX]`: nullopt with errno (ENETUNREACH ...).
  virtual std::optional<RouteResult> route(const wire::Gid& destination, const wire::Gid& source,
                                           uint32_t ifindex) = 0;
  // MAC of a neighbour if it is known and valid now.
  virtual std::optional<std::array<uint8_t, 6>> neighbour(const wire::Gid& address, uint32_t ifindex) = 0;
};

}  // namespace uroce::netlink
