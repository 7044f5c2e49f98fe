// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What is said about a device, to whoever asks: sysfs files, uverbs queries, netlink.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kmod-shim/uapi/uroce_daemon.h"

namespace uroce::daemon {

// InfiniBand's name for a link speed.
struct Rate {
  uint8_t width = 1;  // enum ib_port_width: 1 is 1X, 2 is 4X
  uint8_t speed = 1;  // enum ib_port_speed: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR
};

Rate rate_of_megabits(uint32_t megabits_per_s);
std::string rate_text(Rate rate);  // "100 Gb/sec (4X EDR)"

// Largest enum ib_mtu whose packets fit: 1500 -> 1024 (3), 4200 -> 4096 (5). 0 when not even 256 fits.
uint8_t active_mtu(uint32_t netdev_mtu);

struct DeviceFacts {
  uint32_t index = 0;
  std::string name;
  uint32_t uverbs_minor = 0;
  uint64_t node_guid_be = 0;
  std::string firmware;
  std::string netdev;  // name
  uint32_t ifindex = 0;
  uint32_t netdev_mtu = 0;
  bool up = false;  // the port is ACTIVE
  uint8_t mtu = 0;  // enum ib_mtu
  Rate rate;
  std::span<const uroce_gid_entry> gids;
  std::vector<std::string> gid_netdevs;  // by GID index
};

using CounterValues = std::array<uint64_t, UROCE_CNT_COUNT>;
// "sent_pkts" ...
std::string_view counter_name(uint32_t counter);

std::string guid_text(uint64_t guid_be);  // "0200:00ff:fe00:0000"
std::string gid_text(const uint8_t (&gid)[16]);

}  // namespace uroce::daemon
