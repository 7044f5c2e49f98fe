// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/sysfs_tree.h"

#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>

#include <cstring>
#include <filesystem>

#include "kmod-shim/uapi/uroce_abi.h"

namespace uroce::daemon {

namespace fs = std::filesystem;

namespace {

constexpr auto kInPlace = TreeWriter::Replace::in_place;
constexpr int kCmAbiVersion = 4;

std::string base_of(const DeviceFacts& device) {
  return fmt::format("sys/devices/platform/uroce.{}", device.index);
}
std::string ib_of(const DeviceFacts& device) {
  return base_of(device) + "/infiniband/" + device.name;
}
std::string port_of(const DeviceFacts& device) {
  return ib_of(device) + "/ports/1";
}
std::string uverbs_name(const DeviceFacts& device) {
  return fmt::format("uverbs{}", device.uverbs_minor);
}

void write_sysfs_links(TreeWriter& tree, const DeviceFacts& device) {
  tree.link("sys/class/infiniband/" + device.name,
            fmt::format("../../devices/platform/uroce.{}/infiniband/{}", device.index, device.name));
  tree.link(
      "sys/class/infiniband_verbs/" + uverbs_name(device),
      fmt::format("../../devices/platform/uroce.{}/infiniband_verbs/{}", device.index, uverbs_name(device)));
}

}  // namespace

SysfsTree::SysfsTree(const std::string& root, bool has_rdma_cm) : has_rdma_cm_(has_rdma_cm), writer_(root) {
  write_frame();
  writer_.take_failure();  // the next call tries again and tells
}

// What is there without any device.
void SysfsTree::write_frame() {
  for (const char* path :
       {"sys/class/infiniband", "sys/class/infiniband_verbs", "sys/devices/platform", "dev/infiniband"}) {
    writer_.directory(path);
  }
  writer_.file("sys/class/infiniband_verbs/abi_version", fmt::format("{}\n", IB_USER_VERBS_ABI_VERSION));
  if (!has_rdma_cm_) return;
  writer_.directory("sys/class/misc/rdma_cm");
  writer_.file("sys/class/misc/rdma_cm/abi_version", fmt::format("{}\n", kCmAbiVersion));
  writer_.file("sys/class/misc/rdma_cm/dev",
               fmt::format("{}:{}\n", UROCE_RDMA_CM_MAJOR, UROCE_RDMA_CM_MINOR));
  writer_.file("dev/infiniband/rdma_cm", "");
}

SysfsTree::Failure SysfsTree::write_device(const DeviceFacts& device) {
  write_frame();
  const std::string base = base_of(device), ib = ib_of(device);
  const std::string uverbs = base + "/infiniband_verbs/" + uverbs_name(device);
  writer_.directory(ib);
  writer_.directory(uverbs);
  writer_.file(base + "/modalias", UROCE_MODALIAS "\n");
  writer_.file(base + "/numa_node", "-1\n");
  writer_.file(base + "/local_cpus", "ffffffff\n");

  // As the kernel's `device/net/`: one entry named as the netdev.
  const std::string net = base + "/net";
  writer_.directory(net + "/" + device.netdev);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(writer_.root() + "/" + net, ignored)) {
    if (entry.path().filename() != device.netdev)
      writer_.remove(net + "/" + entry.path().filename().string());
  }

  const std::string guid = guid_text(device.node_guid_be) + "\n";
  const std::pair<const char*, std::string> files[] = {{"node_type", "1: CA\n"},
                                                       {"node_guid", guid},
                                                       {"sys_image_guid", guid},
                                                       {"node_desc", "uroce\n"},
                                                       {"fw_ver", device.firmware + "\n"},
                                                       {"hca_type", "uroce\n"},
                                                       {"hw_rev", "0x1\n"},
                                                       {"board_id", "uroce\n"},
                                                       {"parent", device.netdev + "\n"}};
  for (const auto& [name, text] : files) writer_.file(ib + "/" + name, text, kInPlace);
  writer_.link(ib + "/device", "../..");
  writer_.link(ib + "/subsystem", "../../../../../class/infiniband");

  writer_.file(uverbs + "/ibdev", device.name + "\n", kInPlace);
  writer_.file(uverbs + "/abi_version", fmt::format("{}\n", UROCE_ABI_VERSION), kInPlace);
  writer_.file(uverbs + "/dev",
               fmt::format("{}:{}\n", UROCE_UVERBS_MAJOR, UROCE_UVERBS_MINOR(device.uverbs_minor)), kInPlace);
  writer_.link(uverbs + "/device", "../..");
  writer_.link(uverbs + "/subsystem", "../../../../../class/infiniband_verbs");

  write_port(device);
  write_gids(device);
  writer_.file("dev/infiniband/" + uverbs_name(device), "");
  write_sysfs_links(writer_, device);  // last: whoever sees the device finds all of it
  return writer_.take_failure();
}

void SysfsTree::write_port(const DeviceFacts& device) {
  const std::string port = port_of(device);
  for (const char* below :
       {"/pkeys", "/gids", "/gid_attrs/types", "/gid_attrs/ndevs", "/counters", "/hw_counters"}) {
    writer_.directory(port + below);
  }
  const std::pair<const char*, std::string> files[] = {
      {"state", device.up ? "4: ACTIVE\n" : "1: DOWN\n"},
      {"phys_state", device.up ? "5: LinkUp\n" : "3: Disabled\n"},
      {"rate", rate_text(device.rate) + "\n"},
      {"lid", "0x0\n"},
      {"lid_mask_count", "0\n"},
      {"sm_lid", "0x0\n"},
      {"sm_sl", "0\n"},
      {"cap_mask", "0x00010000\n"},  // CM supported
      {"link_layer", "Ethernet\n"},
      {"pkeys/0", "0xffff\n"}};
  for (const auto& [name, text] : files) writer_.file(port + "/" + name, text);
}

void SysfsTree::write_gids(const DeviceFacts& device) {
  // An empty slot of the kernel's answers EINVAL in types/ and ndevs/, which a file cannot. libibverbs takes
  // a zero GID of any type as empty, and wants ndevs/ to name a netdev or not to be there.
  const std::string port = port_of(device);
  for (size_t i = 0; i < device.gids.size(); ++i) {
    const uroce_gid_entry& entry = device.gids[i];
    const std::string index = std::to_string(i);
    const bool used = entry.ifindex != 0;
    writer_.file(port + "/gids/" + index, gid_text(entry.gid) + "\n");
    writer_.file(port + "/gid_attrs/types/" + index, used ? "RoCE v2\n" : "IB/RoCE v1\n");
    const std::string ndev = port + "/gid_attrs/ndevs/" + index;
    if (used && i < device.gid_netdevs.size() && !device.gid_netdevs[i].empty()) {
      writer_.file(ndev, device.gid_netdevs[i] + "\n");
    } else if (fs::exists(fs::path(root()) / ndev)) {
      writer_.remove(ndev);
    }
  }
}

SysfsTree::Failure SysfsTree::write_counters(const DeviceFacts& device, const CounterValues& counters) {
  const std::string port = port_of(device);
  for (uint32_t i = 0; i < counters.size(); ++i) {
    writer_.file(fmt::format("{}/hw_counters/{}", port, counter_name(i)), fmt::format("{}\n", counters[i]));
  }
  writer_.file(port + "/hw_counters/lifespan", "1000\n");  // milliseconds
  constexpr uint32_t kNothing = UROCE_CNT_COUNT;
  struct Row {
    const char* name;
    uint32_t counter;
    uint64_t divisor;
  };
  constexpr Row rows[] = {{"port_xmit_data", UROCE_CNT_SENT_BYTES, 4},  // in units of 32 bits
                          {"port_rcv_data", UROCE_CNT_RCVD_BYTES, 4},
                          {"port_xmit_packets", UROCE_CNT_SENT_PKTS, 1},
                          {"port_rcv_packets", UROCE_CNT_RCVD_PKTS, 1},
                          {"unicast_xmit_packets", UROCE_CNT_SENT_PKTS, 1},
                          {"unicast_rcv_packets", UROCE_CNT_RCVD_PKTS, 1},
                          {"multicast_xmit_packets", kNothing, 1},
                          {"multicast_rcv_packets", kNothing, 1},
                          {"port_rcv_errors", UROCE_CNT_BAD_ICRC, 1},
                          {"port_xmit_discards", UROCE_CNT_SEND_ERR, 1},
                          {"link_downed", UROCE_CNT_LINK_DOWNED, 1},
                          {"symbol_error", kNothing, 1},
                          {"link_error_recovery", kNothing, 1},
                          {"port_rcv_remote_physical_errors", kNothing, 1},
                          {"port_rcv_switch_relay_errors", kNothing, 1},
                          {"port_xmit_constraint_errors", kNothing, 1},
                          {"port_rcv_constraint_errors", kNothing, 1},
                          {"local_link_integrity_errors", kNothing, 1},
                          {"excessive_buffer_overrun_errors", kNothing, 1},
                          {"port_xmit_wait", kNothing, 1},
                          {"VL15_dropped", kNothing, 1}};
  for (const Row& row : rows) {
    const uint64_t value = row.counter == kNothing ? 0 : counters[row.counter] / row.divisor;
    writer_.file(fmt::format("{}/counters/{}", port, row.name), fmt::format("{}\n", value));
  }
  return writer_.take_failure();
}

SysfsTree::Failure SysfsTree::rename_device(const DeviceFacts& device, const std::string& old_name) {
  const std::string parent = base_of(device) + "/infiniband/";
  writer_.remove("sys/class/infiniband/" + old_name);
  writer_.rename(parent + old_name, parent + device.name);
  return write_device(device);
}

SysfsTree::Failure SysfsTree::remove_device(const DeviceFacts& device) {
  writer_.remove("sys/class/infiniband/" + device.name);
  writer_.remove("sys/class/infiniband_verbs/" + uverbs_name(device));
  writer_.remove("dev/infiniband/" + uverbs_name(device));
  writer_.remove(base_of(device));
  return writer_.take_failure();
}

SysfsTree::Failure SysfsTree::link_host_devices(const std::string& sys, const std::string& dev) {
  write_frame();
  struct Pair {
    std::string host, here;
  };
  const Pair pairs[] = {{sys + "/class/infiniband", "sys/class/infiniband"},
                        {sys + "/class/infiniband_verbs", "sys/class/infiniband_verbs"},
                        {dev + "/infiniband", "dev/infiniband"}};
  std::set<std::string> found;
  for (const Pair& pair : pairs) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(pair.host, none)) {
      const std::string name = entry.path().filename();
      const std::string here = pair.here + "/" + name;
      const fs::path present = fs::path(root()) / here;
      const bool ours =
          fs::exists(fs::symlink_status(present)) && fs::read_symlink(present, none) != entry.path();
      if (ours) continue;
      writer_.link(here, entry.path());
      found.insert(here);
    }
  }
  for (const std::string& old : host_links_) {
    if (found.count(old) == 0) writer_.remove(old);
  }
  host_links_ = std::move(found);
  return writer_.take_failure();
}

void SysfsTree::remove_all() {
  std::error_code ignored;
  fs::remove_all(root(), ignored);
}

}  // namespace uroce::daemon
