// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The devices of this network namespace: made and removed by `rdma link`, kept in step with their netdevs.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "netlink/route/route_table.h"
#include "tools/uroced/device_facts.h"
#include "tools/uroced/device_page.h"
#include "tools/uroced/registry.h"
#include "tools/uroced/slot_group.h"
#include "tools/uroced/sysfs_tree.h"

namespace uroce::daemon {

// What the contexts of a device are told.
class DeviceListener {
 public:
  virtual void port_event(uint32_t device, uint32_t event_type) = 0;  // enum ib_event_type, for port 1
  virtual void device_added() = 0;
  virtual void device_removed(uint32_t device) = 0;  // before its record is freed
  // Whether a client still has the removed device open: its position and minor are not given away then.
  virtual bool still_open(uint32_t device) const = 0;

 protected:
  ~DeviceListener() = default;
};

class DeviceSet {
 public:
  DeviceSet(Registry& registry, KeeperLine& keeper, netlink::RouteTable& routes, SysfsTree& tree,
            SlotGroup& slots, DeviceListener& listener);

  // After a restart of the worker.
  void adopt();

  // 0 or the errno for the extended ACK, with its text.
  int add(const std::string& name, const std::string& type, const std::string& netdev, std::string& why);
  void remove(uint32_t position, const std::string& reason);
  int rename(uint32_t position, const std::string& name, std::string& why);
  void set_transport(uint32_t position, uint32_t transport);  // enum uroce_transport
  void set_minimum_timeout(uint32_t position, uint32_t ms);

  // Links or addresses have changed.
  void follow_netdevs();

  std::optional<uint32_t> by_index(uint32_t device_index) const;
  std::optional<uint32_t> by_name(const std::string& name) const;
  std::optional<uint32_t> by_minor(uint32_t minor) const;
  bool any() const;
  template <typename Visit>  // Visit(uint32_t position)
  void for_each(Visit&& visit) const {
    for (uint32_t i = 0; i < kMaxDevices; ++i) {
      if (registry_.device(i).live != 0) visit(i);
    }
  }

  DeviceFacts facts(uint32_t position) const;
  Fd page_for_reader(uint32_t position) const { return pages_[position].for_reader(); }

 private:
  int check_new(const std::string& name, const std::string& type, const std::string& netdev,
                std::string& why);
  bool name_is_taken(const std::string& name) const;
  uint32_t free_minor() const;
  SysfsTree::Failure refresh(uint32_t position);
  SysfsTree::Failure publish(uint32_t position);

  Registry& registry_;
  KeeperLine& keeper_;
  netlink::RouteTable& routes_;
  SysfsTree& tree_;
  SlotGroup& slots_;
  DeviceListener& listener_;
  std::array<DevicePage, kMaxDevices> pages_;
};

// As the kernel takes netdev names: 1 to 63 characters, no '/', ':' or white space, neither "." nor "..".
// Empty: fine, else what is wrong.
std::string wrong_with_device_name(const std::string& name);

}  // namespace uroce::daemon
