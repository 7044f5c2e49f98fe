// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_pool.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "provider/transport/udp_socket.h"

namespace uroce::transport {

UdpSendPool::~UdpSendPool() {
  for (const Member& m : ipv4_) close(m.descriptor);
  for (const Member& m : ipv6_) close(m.descriptor);
}

bool UdpSendPool::open(bool ipv4) {
  std::vector<Member>& members = ipv4 ? ipv4_ : ipv6_;
  if (!members.empty()) return true;
  std::vector<Member> fresh;
  for (size_t i = 0; i < size_; ++i) {
    const int fd = open_send_socket(ipv4 ? AF_INET : AF_INET6);
    if (fd < 0) {
      const int error = errno;
      for (const Member& m : fresh) close(m.descriptor);
      errno = error;
      return false;
    }
    fresh.push_back({fd, port_of(fd)});
  }
  members = std::move(fresh);
  return true;
}

}  // namespace uroce::transport
