// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// GIDs as addresses (RoCEv2: a GID *is* an IPv6 address or an IPv4-mapped one).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce::wire {

struct Gid {
  std::array<uint8_t, 16> raw{};

  bool operator==(const Gid& other) const {  // in two words: connected packets compare two GIDs each
    uint64_t mine[2];
    uint64_t others[2];
    std::memcpy(mine, raw.data(), sizeof mine);
    std::memcpy(others, other.raw.data(), sizeof others);
    return ((mine[0] ^ others[0]) | (mine[1] ^ others[1])) == 0;
  }
  bool is_zero() const { return *this == Gid{}; }
  bool is_ipv4() const {  // ::ffff:a.b.c.d
    static constexpr std::array<uint8_t, 12> prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(raw.data(), prefix.data(), prefix.size()) == 0;
  }
  bool is_link_local() const { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }
  bool is_multicast() const { return raw[0] == 0xff || (is_ipv4() && (raw[12] & 0xf0) == 0xe0); }
  // The four bytes of an IPv4 address, network order in memory.
  uint32_t ipv4_be() const {
    uint32_t v;
    std::memcpy(&v, raw.data() + 12, 4);
    return v;
  }
  static Gid from_ipv4_be(uint32_t address) {
    Gid g;
    g.raw[10] = g.raw[11] = 0xff;
    std::memcpy(g.raw.data() + 12, &address, 4);
    return g;
  }
};

}  // namespace uroce::wire
