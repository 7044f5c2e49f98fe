// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The files that libibverbs, ibstat, ibstatus, perftest, UCX, libfabric, hwloc and NCCL read, laid out as the
// kernel's:
//
//   sys/devices/platform/uroce.<index>/{modalias,numa_node,local_cpus,net/<netdev>,infiniband/<name>/...,infiniband_verbs/uverbs<N>/...}
//   sys/class/infiniband/<name>, sys/class/infiniband_verbs/uverbs<N>   symbolic links to the above
//   sys/class/infiniband_verbs/abi_version, sys/class/misc/rdma_cm/{abi_version,dev}
//   dev/infiniband/{uverbs<N>,rdma_cm}   plain files; the stand-in opens them
//
// Files that could not be written are written at the next call. RDMA devices of the host appear as links into
// the real /sys and /dev. Counter files are as fresh as the last write_counters().
#pragma once

#include <set>
#include <string>

#include "tools/uroced/device_facts.h"
#include "tools/uroced/tree_writer.h"

namespace uroce::daemon {

class SysfsTree {
 public:
  using Failure = TreeWriter::Failure;

  // `root`: from make_tree_directory(), or that of an earlier worker. Without a connection manager its files
  // are not there, as where the kernel's module is not loaded; the host's own then show through.
  SysfsTree(const std::string& root, bool has_rdma_cm);

  const std::string& root() const { return writer_.root(); }

  Failure write_device(const DeviceFacts& device);  // new or changed; what is right already stays untouched
  Failure write_counters(const DeviceFacts& device, const CounterValues& counters);
  Failure rename_device(const DeviceFacts& device, const std::string& old_name);  // `device` has the new name
  Failure remove_device(const DeviceFacts& device);

  // Links to what is in `sys` and `dev` (normally /sys and /dev) and not ours.
  Failure link_host_devices(const std::string& sys, const std::string& dev);

  void remove_all();  // when the daemon leaves

 private:
  void write_frame();
  void write_port(const DeviceFacts& device);
  void write_gids(const DeviceFacts& device);

  const bool has_rdma_cm_;
  TreeWriter writer_;
  std::set<std::string> host_links_;
};

}  // namespace uroce::daemon
