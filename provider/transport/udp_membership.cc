// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_membership.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::transport {

UdpMemberships::~UdpMemberships() {
  for (const Membership& m : members_) change(m.group, m.ifindex, false);
}

std::vector<UdpMemberships::Membership>::iterator UdpMemberships::find(const wire::Gid& group,
                                                                       uint32_t ifindex) {
  return std::find_if(members_.begin(), members_.end(),
                      [&](const Membership& m) { return m.group == group && m.ifindex == ifindex; });
}

int UdpMemberships::change(const wire::Gid& group, uint32_t ifindex, bool join) {
  int result;
  if (group.is_ipv4()) {
    ip_mreqn request{};
    request.imr_multiaddr.s_addr = group.ipv4_be();
    request.imr_ifindex = static_cast<int>(ifindex);
    result =
        setsockopt(fd_, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request, sizeof request);
  } else {
    ipv6_mreq request{};
    std::memcpy(&request.ipv6mr_multiaddr, group.raw.data(), 16);
    request.ipv6mr_interface = ifindex;
    result = setsockopt(fd_, IPPROTO_IPV6, join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &request,
                        sizeof request);
  }
  return result == 0 ? 0 : errno;
}

int UdpMemberships::join(const wire::Gid& group, uint32_t ifindex) {
  if (const auto known = find(group, ifindex); known != members_.end()) {
    ++known->count;
    return 0;
  }
  int error = change(group, ifindex, true);
  // The slot's socket outlives its processes: one that was killed left the group joined.
  if (error == EADDRINUSE) error = 0;
  if (error == 0) members_.push_back({group, ifindex, 1});
  return error;
}

int UdpMemberships::leave(const wire::Gid& group, uint32_t ifindex) {
  const auto known = find(group, ifindex);
  if (known == members_.end()) return EADDRNOTAVAIL;
  if (--known->count > 0) return 0;
  members_.erase(known);
  return change(group, ifindex, false);
}

}  // namespace uroce::transport
