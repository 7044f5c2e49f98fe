// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Questions that the kernel answers one at a time: which way, which MAC.
#pragma once

#include <array>
#include <optional>

#include "netlink/route/kernel_line.h"
#include "netlink/route/route_table.h"

namespace uroce::netlink {

// A zero `source` and an `ifindex` of 0 leave the choice to the kernel. nullopt with errno.
std::optional<RouteResult> look_up_route(KernelLine& line, const wire::Gid& destination,
                                         const wire::Gid& source, uint32_t ifindex);

std::optional<std::array<uint8_t, 6>> look_up_neighbour(KernelLine& line, const wire::Gid& address,
                                                        uint32_t ifindex);

}  // namespace uroce::netlink
