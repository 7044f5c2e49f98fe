// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What /proc tells about other processes: who holds a socket, who lives in a network namespace, who is behind
// a pid. Slow (it walks all processes); what may not be looked at is passed over.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace uroce::daemon {

uint64_t inode_of(int fd);  // 0 on error
uint64_t own_netns_inode();

// Those of `inodes` (sockets) that a process other than `excluded` has open.
std::set<uint64_t> held_sockets(const std::set<uint64_t>& inodes, const std::set<pid_t>& excluded);

// Whether held_sockets() can tell anything about this process.
bool sockets_can_be_seen(pid_t pid);

struct PortHolder {
  uid_t uid;
  uint64_t inode;
  pid_t pid;  // 0: not visible to us, or a socket of the kernel
};
// Who has a UDP socket on `port` in this network namespace.
std::vector<PortHolder> udp_port_holders(uint16_t port);
std::string describe(const PortHolder& holder);  // "process 12 (name) of uid 0"

enum class Presence { somebody, nobody, unknown };
// Whether a process other than `excluded` is in our network namespace. unknown: processes are hidden.
Presence anybody_in_netns(const std::set<pid_t>& excluded);
// Whether a mount (`ip netns`, container runtimes) refers to the network namespace.
bool netns_has_name(uint64_t netns_inode);

size_t open_descriptors(pid_t pid);  // 0: not to be seen

// Whether every uid has a meaning here, as in the first user namespace.
bool users_are_known();

std::string command_name(pid_t pid);  // comm; empty when gone

}  // namespace uroce::daemon
