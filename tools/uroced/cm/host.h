// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the connection manager asks of the machine: devices, addresses, ways. The daemon implements it, tests
// use a fake. Answers are of this moment; nothing here waits.
#pragma once

#include <cstdint>
#include <optional>

#include "provider/wire/address.h"
#include "tools/uroced/cm/port_table.h"

namespace uroce::cm {

// A GID of a device.
struct LocalPort {
  uint32_t device = 0;   // position
  uint32_t ifindex = 0;  // netdev of the GID
  uint8_t gid_index = 0;
};

struct DeviceView {
  uint64_t node_guid_be = 0;
  uint32_t index = 0;      // RDMA_NLDEV_ATTR_DEV_INDEX
  uint8_t active_mtu = 0;  // enum ib_mtu
  uint8_t ca_ack_delay = 15;
};

struct Way {
  wire::Gid source;
  wire::Gid next_hop;
  uint32_t ifindex = 0;
  bool local = false;  // to one of our own addresses
};

enum class Neighbour : uint8_t { reachable, asked, impossible };

class Host {
 public:
  // The device that has `ip` as a GID, on netdev `ifindex` unless that is 0.
  virtual std::optional<LocalPort> port_of(const wire::Gid& ip, uint32_t ifindex) const = 0;
  // Whether any netdev of the namespace has this address.
  virtual bool is_own_address(const wire::Gid& ip, uint32_t ifindex) const = 0;
  virtual DeviceView device(uint32_t position) const = 0;
  // An address of the family on any device; nullopt: there is none.
  virtual std::optional<wire::Gid> first_address(bool ipv4) const = 0;

  // A zero source and ifindex 0 leave the choice to the kernel. nullopt with errno.
  virtual std::optional<Way> way_to(const wire::Gid& destination, const wire::Gid& source,
                                    uint32_t ifindex) const = 0;
  // Whether the next hop's MAC is known; where it is not, the kernel is made to ask for it.
  virtual Neighbour neighbour(const Way& way) = 0;

  // net.ipv4.ip_local_port_range
  virtual PortTable::Range ephemeral_ports() const = 0;

 protected:
  ~Host() = default;
};

}  // namespace uroce::cm
