// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/cm/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace uroce::cm {
namespace {

using Storage = std::array<std::byte, sizeof(sockaddr_storage)>;

template <typename Sockaddr>
Storage stored(const Sockaddr& address) {
  Storage out{};
  std::memcpy(out.data(), &address, sizeof address);
  return out;
}

sockaddr_in ipv4(const char* text, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  inet_pton(AF_INET, text, &out.sin_addr);
  return out;
}

sockaddr_in6 ipv6(const char* text, uint16_t port, uint32_t scope) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(port);
  out.sin6_scope_id = scope;
  inet_pton(AF_INET6, text, &out.sin6_addr);
  return out;
}

TEST(Address, ipv4_there_and_back) {
  const Storage in = stored(ipv4("10.1.2.3", 7471));
  const auto address = read_sockaddr(in);
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->family, AF_INET);
  EXPECT_TRUE(address->ip.is_ipv4());
  EXPECT_EQ(address->ip.raw[12], 10);
  EXPECT_EQ(address->ip.raw[15], 3);
  EXPECT_EQ(address->port, 7471);
  EXPECT_FALSE(address->is_any());
  Storage out{};
  EXPECT_EQ(write_sockaddr(*address, out), sizeof(sockaddr_in));
  EXPECT_EQ(in, out);
}

TEST(Address, ipv6_there_and_back) {
  const Storage in = stored(ipv6("fe80::1:2", 18515, 9));
  const auto address = read_sockaddr(in);
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->family, AF_INET6);
  EXPECT_EQ(address->port, 18515);
  EXPECT_EQ(address->scope, 9u);
  EXPECT_TRUE(address->ip.is_link_local());
  Storage out{};
  EXPECT_EQ(write_sockaddr(*address, out), sizeof(sockaddr_in6));
  EXPECT_EQ(in, out);
}

TEST(Address, ib_there_and_back) {
  SockaddrIb ib{};
  ib.family = kAfIb;
  ib.gid[0] = 0xfe;
  ib.service_be = __builtin_bswap64(0x01061234);
  const auto address = read_sockaddr(stored(ib));
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->family, kAfIb);
  EXPECT_EQ(address->port, 0x1234);
  EXPECT_EQ(address->ip.raw[0], 0xfe);
  Storage out{};
  EXPECT_EQ(write_sockaddr(*address, out), sizeof(SockaddrIb));
  EXPECT_EQ(sockaddr_family(out), kAfIb);
}

TEST(Address, too_short_or_of_another_family_is_none) {
  const Storage in = stored(ipv6("fd00::1", 1, 0));
  EXPECT_TRUE(read_sockaddr(std::span(in).first(sizeof(sockaddr_in6))).has_value());
  EXPECT_FALSE(read_sockaddr(std::span(in).first(sizeof(sockaddr_in6) - 1)).has_value());
  EXPECT_FALSE(read_sockaddr(std::span(in).first(1)).has_value());
  EXPECT_FALSE(read_sockaddr({}).has_value());
  EXPECT_FALSE(read_sockaddr(Storage{}).has_value());
  Storage local{};
  local[0] = std::byte{AF_UNIX};
  EXPECT_FALSE(read_sockaddr(local).has_value());
  EXPECT_EQ(sockaddr_bytes(AF_UNIX), 0u);
}

TEST(Address, writes_nothing_where_there_is_no_room) {
  Storage out{};
  EXPECT_EQ(write_sockaddr(Address{}, out), 0u);
  EXPECT_EQ(write_sockaddr(Address::any(AF_INET6), std::span(out).first(sizeof(sockaddr_in6) - 1)), 0u);
  EXPECT_EQ(out, Storage{});
}

TEST(Address, wildcards_of_both_families) {
  EXPECT_TRUE(read_sockaddr(stored(ipv4("0.0.0.0", 5)))->is_any());
  EXPECT_TRUE(read_sockaddr(stored(ipv6("::", 5, 0)))->is_any());
  EXPECT_EQ(Address::any(AF_INET), read_sockaddr(stored(ipv4("0.0.0.0", 0))));
  EXPECT_EQ(Address::any(AF_INET6), read_sockaddr(stored(ipv6("::", 0, 0))));
  EXPECT_FALSE(read_sockaddr(stored(ipv6("::1", 5, 0)))->is_any());
}

TEST(Address, has_the_family_of_its_ip) {
  EXPECT_EQ(Address::of(wire::Gid::from_ipv4_be(htonl(0x0a000001)), 5).family, AF_INET);
  wire::Gid gid;
  gid.raw[0] = 0xfd;
  EXPECT_EQ(Address::of(gid, 5).family, AF_INET6);
  EXPECT_EQ(Address::of(gid, 5).port, 5);
}

}  // namespace
}  // namespace uroce::cm
