// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/guid.h"

#include <algorithm>
#include <cstring>

namespace uroce::daemon {

namespace {

std::array<uint8_t, 8> eui64(std::span<const uint8_t> mac) {
  return {static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

uint64_t fnv1a(std::span<const uint8_t> bytes, uint64_t hash) {
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

template <typename T>
std::span<const uint8_t> raw(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

}  // namespace

bool has_own_mac(const netlink::Link& netdev) {
  return !netdev.loopback && netdev.mac.size() == 6 &&
         std::any_of(netdev.mac.begin(), netdev.mac.end(), [](uint8_t b) { return b != 0; });
}

wire::Gid link_local_from_mac(std::span<const uint8_t> mac) {
  wire::Gid gid;
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0x80;
  const auto id = eui64(mac);
  std::copy(id.begin(), id.end(), gid.raw.begin() + 8);
  return gid;
}

uint64_t node_guid_be(const netlink::Link& netdev, uint64_t salt,
                      const std::function<bool(uint64_t guid_be)>& taken) {
  uint64_t guid = 0;
  if (has_own_mac(netdev)) {
    const auto id = eui64(netdev.mac);
    std::memcpy(&guid, id.data(), sizeof guid);
    if (!taken(guid)) return guid;
  }
  uint64_t hash = fnv1a(raw(salt), 0xcbf29ce484222325u);
  hash = fnv1a(netdev.mac, hash);
  hash = fnv1a(raw(netdev.ifindex), hash);
  hash = fnv1a({reinterpret_cast<const uint8_t*>(netdev.name.data()), netdev.name.size()}, hash);
  do {
    hash = fnv1a(raw(hash), hash);
    std::memcpy(&guid, &hash, sizeof guid);
    // "Locally administered", as the EUI-64 of no vendor is.
    auto* first = reinterpret_cast<uint8_t*>(&guid);
    first[0] = static_cast<uint8_t>((first[0] & ~3u) | 0u);
  } while (guid == 0 || taken(guid));
  return guid;
}

}  // namespace uroce::daemon
