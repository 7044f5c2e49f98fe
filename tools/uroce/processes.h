// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What /proc tells about other processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uroce::cli {

std::vector<pid_t> all_processes();
std::string command_name(pid_t pid);  // empty when it is gone
// `pid` or a child of it, if a signal or a debugger has stopped it.
std::optional<pid_t> stopped_process(pid_t pid);

struct PortHolder {
  uid_t uid;
  pid_t pid;  // 0: not to be seen by this user, or the kernel itself
};
// Who has a UDP socket on `port` in this network namespace, each once.
std::vector<PortHolder> udp_port_holders(uint16_t port);
std::string describe(const PortHolder& holder);

}  // namespace uroce::cli
