// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Multicast groups of a lane, counted.
//
// The receive socket belongs to the slot and outlives the process, so memberships are made on sockets of our
// own, which the kernel closes with the process however it ends. The receive socket hears every group that
// the host has joined while there is at least one; the engine takes what it is attached to.
#pragma once

#include <cstdint>
#include <vector>

#include "provider/wire/address.h"

namespace uroce::transport {

class UdpMemberships {
 public:
  explicit UdpMemberships(int receive_socket) : receive_socket_(receive_socket) {}
  ~UdpMemberships();  // leaves them all; the receive socket is still open
  UdpMemberships(const UdpMemberships&) = delete;

  // 0 or errno. A socket takes 20 groups (net.ipv4.igmp_max_memberships); another is opened for more.
  int join(const wire::Gid& group, uint32_t ifindex);
  int leave(const wire::Gid& group, uint32_t ifindex);

 private:
  struct Membership {
    wire::Gid group;
    uint32_t ifindex;
    uint32_t count;
    int socket;  // one of sockets_
  };
  struct Socket {
    int descriptor;
    bool ipv4;
  };
  std::vector<Membership>::iterator find(const wire::Gid& group, uint32_t ifindex);
  int join_somewhere(Membership& fresh);

  int receive_socket_;
  std::vector<Membership> members_;
  std::vector<Socket> sockets_;
};

}  // namespace uroce::transport
