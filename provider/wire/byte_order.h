// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Big-endian loads and stores at any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce::wire {

inline uint16_t load_be16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap16(v);
}
inline uint32_t load_be32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap32(v);
}
inline uint64_t load_be64(const std::byte* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap64(v);
}
inline void store_be16(std::byte* p, uint16_t v) {
  v = __builtin_bswap16(v);
  std::memcpy(p, &v, sizeof v);
}
inline void store_be32(std::byte* p, uint32_t v) {
  v = __builtin_bswap32(v);
  std::memcpy(p, &v, sizeof v);
}
inline void store_be64(std::byte* p, uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(p, &v, sizeof v);
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the stores above swap; a big-endian machine must not");

}  // namespace uroce::wire
