// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Numbers derived from a MAC: the link-local address and the node GUID. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "netlink/route/route_table.h"

namespace uroce::daemon {

// A six-byte MAC that is not zero, on something else than a loopback.
bool has_own_mac(const netlink::Link& netdev);

// fe80:: with the modified EUI-64 of the MAC (RFC 4291, appendix A).
wire::Gid link_local_from_mac(std::span<const uint8_t> mac);

// Modified EUI-64 of the MAC where it has one and `taken` does not know it, else a number made from the
// netdev and `salt` (what tells this namespace from others). librdmacm tells devices apart by it, so it is
// never zero and never twice in a namespace. Network order in memory.
uint64_t node_guid_be(const netlink::Link& netdev, uint64_t salt,
                      const std::function<bool(uint64_t guid_be)>& taken);

}  // namespace uroce::daemon
