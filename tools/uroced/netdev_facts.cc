// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/netdev_facts.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "tools/uroced/fd.h"

namespace uroce::daemon {

namespace {

// The masks behind the structure take what the kernel says they take; 127 words are the most its type allows.
union LinkSettings {
  ethtool_link_settings head;
  uint8_t room[sizeof(ethtool_link_settings) + 3 * 127 * sizeof(uint32_t)];
};

bool ask(int fd, const std::string& netdev, LinkSettings& settings) {
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", netdev.c_str());
  request.ifr_data = reinterpret_cast<char*>(&settings);
  settings.head.cmd = ETHTOOL_GLINKSETTINGS;
  return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

}  // namespace

uint32_t link_speed_megabits(const std::string& netdev) {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  LinkSettings settings;
  std::memset(&settings, 0, sizeof settings);
  // The first answer only says, as a negative number, how many words the masks take.
  if (!fd || !ask(fd.get(), netdev, settings) || settings.head.link_mode_masks_nwords >= 0) return 0;
  settings.head.link_mode_masks_nwords = static_cast<int8_t>(-settings.head.link_mode_masks_nwords);
  if (!ask(fd.get(), netdev, settings)) return 0;
  return settings.head.speed == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : settings.head.speed;
}

bool ipv6_enabled(const std::string& netdev) {
  std::ifstream file("/proc/sys/net/ipv6/conf/" + netdev + "/disable_ipv6");
  int disabled = 1;
  return static_cast<bool>(file >> disabled) && disabled == 0;
}

}  // namespace uroce::daemon
