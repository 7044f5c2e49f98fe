// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The machine as the connection manager asks about it.
#pragma once

#include "netlink/route/route_table.h"
#include "tools/uroced/cm/host.h"
#include "tools/uroced/device_set.h"

namespace uroce::daemon {

class CmHost final : public cm::Host {
 public:
  CmHost(Registry& registry, DeviceSet& devices, netlink::RouteTable& routes)
      : registry_(registry), devices_(devices), routes_(routes) {}

  std::optional<cm::LocalPort> port_of(const wire::Gid& ip, uint32_t ifindex) const override;
  bool is_own_address(const wire::Gid& ip, uint32_t ifindex) const override;
  cm::DeviceView device(uint32_t position) const override;
  std::optional<wire::Gid> first_address(bool ipv4) const override;
  std::optional<cm::Way> way_to(const wire::Gid& destination, const wire::Gid& source,
                                uint32_t ifindex) const override;
  cm::Neighbour neighbour(const cm::Way& way) override;
  cm::PortTable::Range ephemeral_ports() const override;

 private:
  Registry& registry_;
  DeviceSet& devices_;
  netlink::RouteTable& routes_;
};

}  // namespace uroce::daemon
