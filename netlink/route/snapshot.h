// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Links and addresses as the kernel has them now.
#pragma once

#include <vector>

#include "netlink/route/kernel_line.h"
#include "netlink/route/route_table.h"

namespace uroce::netlink {

bool operator==(const Link& a, const Link& b);
bool operator==(const Address& a, const Address& b);

// By ifindex. False with `why`; `out` is untouched then.
bool read_links(KernelLine& line, std::vector<Link>& out, std::string& why);

// In the order of the kernel's dump: IPv4 by netdev, then IPv6 by netdev.
bool read_addresses(KernelLine& line, std::vector<Address>& out, std::string& why);

}  // namespace uroce::netlink
