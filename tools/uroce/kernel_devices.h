// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The RDMA devices of the kernel itself. The C library's functions may be the stand-in's, which shows devices
// of uroced too; so these ask the kernel.
#pragma once

#include <string>
#include <vector>

namespace uroce::cli {

struct KernelDevice {
  std::string name;
  bool of_module = false;  // a link of uroce's kernel module
  std::string state;       // of its port, as the kernel writes it: "4: ACTIVE"
};

// Below `root`, which is / but for tests. By name.
std::vector<KernelDevice> kernel_devices(const std::string& root);

}  // namespace uroce::cli
