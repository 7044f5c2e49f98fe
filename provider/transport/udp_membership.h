// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Multicast groups of the receive socket, counted.
#pragma once

#include <cstdint>
#include <vector>

#include "provider/wire/address.h"

namespace uroce::transport {

class UdpMemberships {
 public:
  explicit UdpMemberships(int receive_socket) : fd_(receive_socket) {}
  ~UdpMemberships();  // leaves them all; the socket is still open
  UdpMemberships(const UdpMemberships&) = delete;

  // 0 or errno; ENOBUFS beyond the kernel's limit per socket (net.ipv4.igmp_max_memberships, 20 unless
  // raised).
  int join(const wire::Gid& group, uint32_t ifindex);
  int leave(const wire::Gid& group, uint32_t ifindex);

 private:
  struct Membership {
    wire::Gid group;
    uint32_t ifindex;
    uint32_t count;
  };
  std::vector<Membership>::iterator find(const wire::Gid& group, uint32_t ifindex);
  int change(const wire::Gid& group, uint32_t ifindex, bool join);

  int fd_;
  std::vector<Membership> members_;
};

}  // namespace uroce::transport
