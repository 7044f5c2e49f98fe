// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Addresses of identifiers: an IP address (as GID), a port and the netdev that a link-local address is meant
// on; bytes of a sockaddr <-> struct.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "provider/wire/address.h"

namespace uroce::cm {

constexpr uint16_t kAfIb = 27;  // AF_IB; the bytes are a struct sockaddr_ib

struct SockaddrIb {  // as <rdma/ib.h>; big-endian but for the scope
  uint16_t family, pkey_be;
  uint32_t flow_be;
  uint8_t gid[16];
  uint64_t service_be, service_mask_be;
  uint64_t scope;
};
static_assert(sizeof(SockaddrIb) == 48);

struct Address {
  uint16_t family = AF_UNSPEC;  // AF_INET, AF_INET6, or kAfIb (the wildcard only)
  wire::Gid ip;                 // AF_INET: ::ffff:a.b.c.d
  uint16_t port = 0;
  uint32_t scope = 0;  // ifindex, of link-local addresses

  bool is_any() const { return ip.is_zero() || (ip.is_ipv4() && ip.ipv4_be() == 0); }
  bool operator==(const Address&) const = default;

  static Address any(uint16_t family);
  static Address of(const wire::Gid& ip, uint16_t port);
};

// The size that a sockaddr of this family has; 0: not one of ours.
size_t sockaddr_bytes(uint16_t family);
uint16_t sockaddr_family(std::span<const std::byte> bytes);

// nullopt: another family, or too short.
std::optional<Address> read_sockaddr(std::span<const std::byte> bytes);
// Returns the bytes written: 0 for AF_UNSPEC.
size_t write_sockaddr(const Address& address, std::span<std::byte> out);

}  // namespace uroce::cm
