// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_membership.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provider/transport/udp.h"
#include "provider/transport/udp_socket.h"

namespace uroce::transport {
namespace {

// 0 or errno.
int change(int fd, const wire::Gid& group, uint32_t ifindex, bool join) {
  int result;
  if (group.is_ipv4()) {
    ip_mreqn request{};
    request.imr_multiaddr.s_addr = group.ipv4_be();
    request.imr_ifindex = static_cast<int>(ifindex);
    result =
        setsockopt(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request, sizeof request);
  } else {
    ipv6_mreq request{};
    std::memcpy(&request.ipv6mr_multiaddr, group.raw.data(), 16);
    request.ipv6mr_interface = ifindex;
    result = setsockopt(fd, IPPROTO_IPV6, join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &request,
                        sizeof request);
  }
  return result == 0 ? 0 : errno;
}

// IPv6 memberships are charged to the memory of the socket (net.core.optmem_max) instead of being counted.
bool is_full(int error) {
  return error == ENOBUFS || error == ENOMEM;
}

}  // namespace

UdpMemberships::~UdpMemberships() {
  if (!members_.empty()) hear_all_groups(receive_socket_, false);
  for (const Socket& socket : sockets_) close(socket.descriptor);
}

std::vector<UdpMemberships::Membership>::iterator UdpMemberships::find(const wire::Gid& group,
                                                                       uint32_t ifindex) {
  return std::find_if(members_.begin(), members_.end(),
                      [&](const Membership& m) { return m.group == group && m.ifindex == ifindex; });
}

// On the first socket with room, else on another.
int UdpMemberships::join_somewhere(Membership& fresh) {
  const bool ipv4 = fresh.group.is_ipv4();
  for (const Socket& socket : sockets_) {
    if (socket.ipv4 != ipv4) continue;
    fresh.socket = socket.descriptor;
    if (const int error = change(socket.descriptor, fresh.group, fresh.ifindex, true); !is_full(error))
      return error;
  }
  // Bound to no port: nothing ever arrives here.
  const int fd = new_udp_socket(ipv4 ? AF_INET : AF_INET6, 0);
  if (fd < 0) return errno;
  const int error = change(fd, fresh.group, fresh.ifindex, true);
  if (error != 0) {
    close(fd);
    return error;
  }
  fresh.socket = fd;
  sockets_.push_back({fd, ipv4});
  return 0;
}

int UdpMemberships::join(const wire::Gid& group, uint32_t ifindex) {
  if (const auto known = find(group, ifindex); known != members_.end()) {
    ++known->count;
    return 0;
  }
  if (members_.empty() && !hear_all_groups(receive_socket_, true)) return errno;
  Membership fresh{group, ifindex, 1, -1};
  const int error = join_somewhere(fresh);
  if (error == 0)
    members_.push_back(fresh);
  else if (members_.empty())
    hear_all_groups(receive_socket_, false);
  return error;
}

int UdpMemberships::leave(const wire::Gid& group, uint32_t ifindex) {
  const auto known = find(group, ifindex);
  if (known == members_.end()) return EADDRNOTAVAIL;
  if (--known->count > 0) return 0;
  const int error = change(known->socket, group, ifindex, false);
  members_.erase(known);
  if (members_.empty()) hear_all_groups(receive_socket_, false);
  return error;
}

}  // namespace uroce::transport
