// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What /proc tells about other processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::cli {

std::vector<pid_t> all_processes();
std::string command_name(pid_t pid);  // empty when it is gone

struct PortHolder {
  uid_t uid;
  pid_t pid;  // 0: not to be seen by this user, or the kernel itself
};
// Who has a UDP socket on `port` in this network namespace, each once.
std::vector<PortHolder> udp_port_holders(uint16_t port);
std::string describe(const PortHolder& holder);

}  // namespace uroce::cli
