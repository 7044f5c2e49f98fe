// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// GIDs as the addresses that rtnetlink carries.
#pragma once

#include <linux/netlink.h>
#include <netlink/addr.h>

#include <optional>
#include <span>

#include "provider/wire/address.h"

namespace uroce::netlink {

int family_of(const wire::Gid& gid);  // AF_INET or AF_INET6

// The 4 or 16 bytes of the address inside the GID.
std::span<const uint8_t> address_bytes(const wire::Gid& gid);

std::optional<wire::Gid> gid_of(int family, std::span<const uint8_t> bytes);
std::optional<wire::Gid> gid_of(const nl_addr& address);

}  // namespace uroce::netlink
