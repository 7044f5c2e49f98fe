// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// SipHash-2-4 over 64-bit words. Without the key nobody can make keys that collide, or tell what comes next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::cm {

struct HashKey {
  uint64_t low = 0, high = 0;
  // Keys for different uses of one seed.
  static HashKey from(uint64_t seed, uint64_t use);
};

template <size_t Words>
uint64_t keyed_hash(const HashKey& key, const std::array<uint64_t, Words>& words);

namespace hash_detail {

struct SipState {
  uint64_t v0, v1, v2, v3;

  explicit SipState(const HashKey& key)
      : v0(key.low ^ 0x736f6d6570736575u),
        v1(key.high ^ 0x646f72616e646f6du),
        v2(key.low ^ 0x6c7967656e657261u),
        v3(key.high ^ 0x7465646279746573u) {}
  static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  void round() {
    v0 += v1, v2 += v3;
    v1 = rotate(v1, 13) ^ v0, v3 = rotate(v3, 16) ^ v2;
    v0 = rotate(v0, 32);
    v2 += v1, v0 += v3;
    v1 = rotate(v1, 17) ^ v2, v3 = rotate(v3, 21) ^ v0;
    v2 = rotate(v2, 32);
  }
  void add(uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  }
  uint64_t end() {
    v2 ^= 0xff;
    round(), round(), round(), round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace hash_detail

template <size_t Words>
uint64_t keyed_hash(const HashKey& key, const std::array<uint64_t, Words>& words) {
  hash_detail::SipState state(key);
  for (const uint64_t word : words) state.add(word);
  state.add(uint64_t{Words * 8} << 56);
  return state.end();
}

inline HashKey HashKey::from(uint64_t seed, uint64_t use) {
  const HashKey whole{seed, ~seed};
  return {keyed_hash<2>(whole, {use, 0}), keyed_hash<2>(whole, {use, 1})};
}

}  // namespace uroce::cm
