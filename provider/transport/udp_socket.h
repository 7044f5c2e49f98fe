// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The sockets of transport udp: options and names. Errors: -1 or false with errno.
#pragma once

#include <cstdint>

namespace uroce::transport {

// By system call: a library in the program that has sockets of its own kind (librspreload, a proxy) never
// sees ours. `flags`: of socket(), besides SOCK_CLOEXEC.
int new_udp_socket(int family, int flags);

// A send-only socket on an ephemeral port: unconnected, DF set. `family`: AF_INET or AF_INET6.
int open_send_socket(int family);
uint16_t port_of(int fd);  // host order; 0 when it has none
bool is_ipv6_socket(int fd);

}  // namespace uroce::transport
