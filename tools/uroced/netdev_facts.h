// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What rtnetlink does not tell about a netdev.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::daemon {

uint32_t link_speed_megabits(const std::string& netdev);  // 0: unknown
bool ipv6_enabled(const std::string& netdev);

}  // namespace uroce::daemon
