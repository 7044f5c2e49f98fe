// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The send-only sockets: one set per address family, made when the first path of that family appears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace uroce::transport {

class UdpSendPool {
 public:
  explicit UdpSendPool(size_t sockets) : size_(sockets) {}
  ~UdpSendPool();
  UdpSendPool(const UdpSendPool&) = delete;

  // False with errno: the family is not available here, or no descriptors are left.
  bool open(bool ipv4);
  size_t size() const { return size_; }
  int descriptor(bool ipv4, size_t index) const { return set(ipv4)[index].descriptor; }
  uint16_t port(bool ipv4, size_t index) const { return set(ipv4)[index].port; }

 private:
  struct Member {
    int descriptor;
    uint16_t port;
  };
  const std::vector<Member>& set(bool ipv4) const { return ipv4 ? ipv4_ : ipv6_; }

  size_t size_;
  std::vector<Member> ipv4_, ipv6_;
};

}  // namespace uroce::transport
