// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/cm/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace uroce::cm {

Address Address::any(uint16_t family) {
  Address address;
  address.family = family;
  if (family == AF_INET) address.ip = wire::Gid::from_ipv4_be(0);
  return address;
}

Address Address::of(const wire::Gid& ip, uint16_t port) {
  Address address;
  address.family = ip.is_ipv4() ? AF_INET : AF_INET6;
  address.ip = ip;
  address.port = port;
  return address;
}

size_t sockaddr_bytes(uint16_t family) {
  switch (family) {
    case AF_INET: return sizeof(sockaddr_in);
    case AF_INET6: return sizeof(sockaddr_in6);
    case kAfIb: return sizeof(SockaddrIb);
    default: return 0;
  }
}

uint16_t sockaddr_family(std::span<const std::byte> bytes) {
  uint16_t family = AF_UNSPEC;
  if (bytes.size() >= sizeof family) std::memcpy(&family, bytes.data(), sizeof family);
  return family;
}

std::optional<Address> read_sockaddr(std::span<const std::byte> bytes) {
  Address address;
  address.family = sockaddr_family(bytes);
  const size_t length = sockaddr_bytes(address.family);
  if (length == 0 || bytes.size() < length) return std::nullopt;
  switch (address.family) {
    case AF_INET: {
      sockaddr_in in;
      std::memcpy(&in, bytes.data(), sizeof in);
      address.ip = wire::Gid::from_ipv4_be(in.sin_addr.s_addr);
      address.port = ntohs(in.sin_port);
      break;
    }
    case AF_INET6: {
      sockaddr_in6 in6;
      std::memcpy(&in6, bytes.data(), sizeof in6);
      std::memcpy(address.ip.raw.data(), &in6.sin6_addr, address.ip.raw.size());
      address.port = ntohs(in6.sin6_port);
      address.scope = in6.sin6_scope_id;
      break;
    }
    default: {
      SockaddrIb ib;
      std::memcpy(&ib, bytes.data(), sizeof ib);
      std::memcpy(address.ip.raw.data(), ib.gid, sizeof ib.gid);
      address.port = static_cast<uint16_t>(__builtin_bswap64(ib.service_be) & 0xffff);
      break;
    }
  }
  return address;
}

size_t write_sockaddr(const Address& address, std::span<std::byte> out) {
  const size_t length = sockaddr_bytes(address.family);
  if (length == 0 || out.size() < length) return 0;
  switch (address.family) {
    case AF_INET: {
      sockaddr_in in{};
      in.sin_family = AF_INET;
      in.sin_port = htons(address.port);
      in.sin_addr.s_addr = address.ip.ipv4_be();
      std::memcpy(out.data(), &in, sizeof in);
      break;
    }
    case AF_INET6: {
      sockaddr_in6 in6{};
      in6.sin6_family = AF_INET6;
      in6.sin6_port = htons(address.port);
      std::memcpy(&in6.sin6_addr, address.ip.raw.data(), address.ip.raw.size());
      in6.sin6_scope_id = address.scope;
      std::memcpy(out.data(), &in6, sizeof in6);
      break;
    }
    default: {
      SockaddrIb ib{};
      ib.family = kAfIb;
      std::memcpy(ib.gid, address.ip.raw.data(), sizeof ib.gid);
      std::memcpy(out.data(), &ib, sizeof ib);
      break;
    }
  }
  return length;
}

}  // namespace uroce::cm
