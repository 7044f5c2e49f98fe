// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The GID table of a device as the kernel's RoCE v2 fills it: index 0 for the default GID (link-local, from
// the MAC), then the addresses of the netdev and of the VLANs and macvlans above it. An address keeps its
// index for as long as it exists. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kmod-shim/uapi/uroce_abi.h"
#include "kmod-shim/uapi/uroce_daemon.h"
#include "netlink/route/route_table.h"

namespace uroce::daemon {

struct GidSource {
  // Index 0: nullopt keeps it empty. Netdevs without a MAC of their own (lo, tun) have no default GID; there
  // index 0 is a slot like any other.
  bool reserves_default = false;
  std::optional<uroce_gid_entry> default_gid;
  std::vector<uroce_gid_entry> addresses;  // in the order in which new ones get their slots
};

// What belongs into the table of the device on `netdev`. `ipv6_enabled`: of the netdev; without IPv6 a
// default GID would be an address that nobody can reach.
GidSource gid_source(const netlink::Link& netdev, std::span<const netlink::Link> links,
                     std::span<const netlink::Address> addresses, bool ipv6_enabled);

// The netdev below a VLAN or macvlan, through any number of them; its own ifindex for everything else.
uint32_t real_netdev(uint32_t ifindex, std::span<const netlink::Link> links);

struct GidChange {
  bool changed = false;
  uint32_t without_slot = 0;  // addresses that found the table full
};

GidChange update_gid_table(std::span<uroce_gid_entry, UROCE_GID_TABLE_LEN> table, const GidSource& source);

}  // namespace uroce::daemon
