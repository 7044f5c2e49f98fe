// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/device_set.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/uroced/gid_table.h"
#include "tools/uroced/guid.h"
#include "tools/uroced/log.h"
#include "tools/uroced/netdev_facts.h"
#include "tools/uroced/process_scan.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kActive = 4, kDown = 1;  // enum ib_port_state
constexpr uint32_t kEventPortActive = 9, kEventPortError = 10, kEventGidChange = 18;
constexpr uint32_t kDefaultMinimumTimeoutMs = 100;
constexpr const char* kHostDevices = "/sys/class/infiniband/";

bool exists(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0;
}

// GUIDs of the host's own devices, which librdmacm must not take for ours.
bool host_has_guid(uint64_t guid_be) {
  const std::string wanted = guid_text(guid_be);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kHostDevices, none)) {
    std::ifstream file(entry.path() / "node_guid");
    std::string text;
    if (file >> text && text == wanted) return true;
  }
  return false;
}

// Where a device stays although its files are incomplete.
void note(const SysfsTree::Failure& failure) {
  if (failure.error != 0) spdlog::warn("the files that stand for /sys are incomplete: {}", failure.text);
}

}  // namespace

std::string wrong_with_device_name(const std::string& name) {
  if (name.empty()) return "a device needs a name";
  if (name.size() > 63)
    return fmt::format("the name has {} characters; at most 63 are possible", name.size());
  if (name == "." || name == "..") return fmt::format("'{}' cannot be a name", name);
  for (const char c : name) {
    if (c == '/' || c == ':' || c == '%' || std::isspace(static_cast<unsigned char>(c)) != 0 ||
        std::iscntrl(static_cast<unsigned char>(c)) != 0) {
      return "a name must not have '/', ':', '%', white space or control characters";
    }
  }
  return {};
}

DeviceSet::DeviceSet(Registry& registry, KeeperLine& keeper, netlink::RouteTable& routes, SysfsTree& tree,
                     SlotGroup& slots, DeviceListener& listener)
    : registry_(registry),
      keeper_(keeper),
      routes_(routes),
      tree_(tree),
      slots_(slots),
      listener_(listener) {}

void DeviceSet::adopt() {
  for_each([&](uint32_t position) {
    std::string why;
    if (!pages_[position].open(keeper_, position, why)) {
      spdlog::error("{} is lost: {}", registry_.device(position).name, why);
      remove(position, why);
      return;
    }
    note(publish(position));
  });
  follow_netdevs();
}

bool DeviceSet::name_is_taken(const std::string& name) const {
  return by_name(name).has_value() || exists(kHostDevices + name);
}

int DeviceSet::check_new(const std::string& name, const std::string& type, const std::string& netdev,
                         std::string& why) {
  if (type != "uroce") {
    why = fmt::format("there is no link type '{}' here; use type uroce", type);
    return EINVAL;
  }
  if (why = wrong_with_device_name(name); !why.empty()) return EINVAL;
  const netlink::Link* link = routes_.find_link(netdev);
  if (link == nullptr) {
    why = fmt::format("there is no netdev '{}' in this network namespace", netdev);
    return ENODEV;
  }
  std::string has_link;
  for_each([&](uint32_t i) {
    if (registry_.device(i).ifindex == link->ifindex) has_link = registry_.device(i).name;
  });
  if (!has_link.empty()) {
    why = fmt::format("{} already has the link {}", netdev, has_link);
    return EEXIST;
  }
  if (name_is_taken(name)) {
    why = fmt::format("there is an RDMA device named {} already", name);
    return ENFILE;  // as ib_register_device
  }
  if (active_mtu(link->mtu) == 0) {
    why = fmt::format("the MTU of {} is {}; even the smallest RoCE packets need more", netdev, link->mtu);
    return EINVAL;
  }
  return slots_.open_port(why);
}

uint32_t DeviceSet::free_minor() const {
  for (uint32_t minor = 0;; ++minor) {
    const std::string file = fmt::format("uverbs{}", minor);
    bool taken = exists("/sys/class/infiniband_verbs/" + file) || exists("/dev/infiniband/" + file);
    for (uint32_t i = 0; i < kMaxDevices; ++i) {
      const DeviceRecord& device = registry_.device(i);
      taken = taken || (device.uverbs_minor == minor && (device.live != 0 || listener_.still_open(i)));
    }
    if (!taken) return minor;
  }
}

int DeviceSet::add(const std::string& name, const std::string& type, const std::string& netdev,
                   std::string& why) {
  routes_.dispatch();  // `ip link add` a moment ago
  if (const int error = check_new(name, type, netdev, why); error != 0) return error;
  uint32_t position = 0;
  while (position < kMaxDevices && (registry_.device(position).live != 0 || listener_.still_open(position)))
    position++;
  if (position == kMaxDevices) {
    why = fmt::format("there are {} devices already, which is the most", kMaxDevices);
    return ENOSPC;
  }
  if (!pages_[position].open(keeper_, position, why)) return ENOMEM;

  const netlink::Link& link = *routes_.find_link(netdev);
  DeviceRecord& device = registry_.edit(registry_.device(position));
  device = {};
  device.index = registry_.edit(registry_.state().next_device_index)++;
  std::snprintf(device.name, sizeof device.name, "%s", name.c_str());
  device.ifindex = link.ifindex;
  device.uverbs_minor = free_minor();
  device.node_guid_be = node_guid_be(link, own_netns_inode(), [&](uint64_t guid) {
    bool taken = host_has_guid(guid);
    for_each([&](uint32_t i) { taken = taken || registry_.device(i).node_guid_be == guid; });
    return taken;
  });
  device.min_timeout_ms = kDefaultMinimumTimeoutMs;
  device.port_state = kDown;
  device.live = 1;
  SysfsTree::Failure failure = refresh(position);
  if (failure.error == 0) failure = tree_.write_counters(facts(position), {});
  if (failure.error != 0) {
    why = fmt::format("the files of {} in {}: {}", name, tree_.root(), failure.text);
    remove(position, why);
    return failure.error;
  }
  spdlog::info("{} on {}: uverbs{}", name, netdev, device.uverbs_minor);
  listener_.device_added();
  return 0;
}

void DeviceSet::remove(uint32_t position, const std::string& reason) {
  const DeviceFacts gone = facts(position);
  spdlog::info("{} is removed: {}", gone.name, reason);
  pages_[position].write([](uroce_device_page& page) {
    page.removed = 1;
    page.port_state = kDown;
  });
  listener_.device_removed(position);
  note(tree_.remove_device(gone));
  pages_[position].drop(keeper_, position);
  registry_.edit(registry_.device(position).live) = 0;
}

int DeviceSet::rename(uint32_t position, const std::string& name, std::string& why) {
  const std::string old = registry_.device(position).name;
  if (why = wrong_with_device_name(name); !why.empty()) return EINVAL;
  if (name == old) return 0;
  if (name_is_taken(name)) {
    why = fmt::format("there is an RDMA device named {} already", name);
    return EEXIST;
  }
  DeviceRecord& device = registry_.edit(registry_.device(position));
  std::memset(device.name, 0, sizeof device.name);
  std::snprintf(device.name, sizeof device.name, "%s", name.c_str());
  note(tree_.rename_device(facts(position), old));
  return 0;
}

void DeviceSet::set_transport(uint32_t position, uint32_t transport) {
  registry_.edit(registry_.device(position).transport) = transport;
  note(publish(position));
}

void DeviceSet::set_minimum_timeout(uint32_t position, uint32_t ms) {
  registry_.edit(registry_.device(position).min_timeout_ms) = ms;
  note(publish(position));
}

void DeviceSet::follow_netdevs() {
  for_each([&](uint32_t position) {
    if (routes_.find_link(registry_.device(position).ifindex) == nullptr) {
      remove(position, "its netdev is gone");
    } else {
      note(refresh(position));
    }
  });
}

// Takes over what the netdev is now; tells what has changed, each once.
SysfsTree::Failure DeviceSet::refresh(uint32_t position) {
  const netlink::Link* link = routes_.find_link(registry_.device(position).ifindex);
  if (link == nullptr) return {};
  DeviceRecord& device = registry_.edit(registry_.device(position));
  const GidSource source = gid_source(*link, routes_.links(), routes_.addresses(), ipv6_enabled(link->name));
  const GidChange gids = update_gid_table(device.gids, source);
  if (gids.without_slot != 0) {
    spdlog::warn("{}: {} addresses of {} have no place in the GID table of {}", device.name,
                 gids.without_slot, link->name, UROCE_GID_TABLE_LEN);
  }
  const uint32_t state = link->up && link->running ? kActive : kDown;
  const bool port_changed = state != device.port_state;
  device.port_state = state;
  if (port_changed && state == kDown) device.retired_counters[UROCE_CNT_LINK_DOWNED]++;
  SysfsTree::Failure failure = publish(position);
  if (port_changed) listener_.port_event(position, state == kActive ? kEventPortActive : kEventPortError);
  if (gids.changed) listener_.port_event(position, kEventGidChange);
  return failure;
}

SysfsTree::Failure DeviceSet::publish(uint32_t position) {
  const DeviceRecord& device = registry_.device(position);
  const DeviceFacts now = facts(position);
  pages_[position].write([&](uroce_device_page& page) {
    page.port_state = device.port_state;
    page.active_mtu = now.mtu;
    page.ifindex = device.ifindex;
    page.netdev_mtu = now.netdev_mtu;
    page.transport = device.transport;
    page.min_timeout_ms = device.min_timeout_ms;
    page.removed = 0;
    std::memcpy(page.gids, device.gids, sizeof page.gids);
  });
  return tree_.write_device(now);
}

std::optional<uint32_t> DeviceSet::by_index(uint32_t device_index) const {
  std::optional<uint32_t> found;
  for_each([&](uint32_t i) {
    if (registry_.device(i).index == device_index) found = i;
  });
  return found;
}

std::optional<uint32_t> DeviceSet::by_name(const std::string& name) const {
  std::optional<uint32_t> found;
  for_each([&](uint32_t i) {
    if (name == registry_.device(i).name) found = i;
  });
  return found;
}

std::optional<uint32_t> DeviceSet::by_minor(uint32_t minor) const {
  std::optional<uint32_t> found;
  for_each([&](uint32_t i) {
    if (registry_.device(i).uverbs_minor == minor) found = i;
  });
  return found;
}

bool DeviceSet::any() const {
  bool found = false;
  for_each([&](uint32_t) { found = true; });
  return found;
}

DeviceFacts DeviceSet::facts(uint32_t position) const {
  const DeviceRecord& device = registry_.device(position);
  DeviceFacts facts;
  facts.index = device.index;
  facts.name = device.name;
  facts.uverbs_minor = device.uverbs_minor;
  facts.node_guid_be = device.node_guid_be;
  facts.firmware = UROCE_VERSION;
  facts.ifindex = device.ifindex;
  facts.up = device.port_state == kActive;
  facts.gids = device.gids;
  if (const netlink::Link* link = routes_.find_link(device.ifindex); link != nullptr) {
    facts.netdev = link->name;
    facts.netdev_mtu = link->mtu;
    facts.mtu = active_mtu(link->mtu);
    facts.rate = rate_of_megabits(link_speed_megabits(link->name));
  }
  facts.gid_netdevs.resize(facts.gids.size());
  for (size_t i = 0; i < facts.gids.size(); ++i) {
    if (facts.gids[i].ifindex == 0) continue;
    if (const netlink::Link* link = routes_.find_link(facts.gids[i].ifindex); link != nullptr)
      facts.gid_netdevs[i] = link->name;
  }
  return facts;
}

}  // namespace uroce::daemon
