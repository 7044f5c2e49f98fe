// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// IBA table 45: the 5-bit RNR NAK timer code.
#pragma once

#include <array>
#include <cstdint>

namespace uroce::engine {

inline constexpr std::array<uint32_t, 32> kRnrTimerTensOfMicroseconds = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr int64_t rnr_timer_ns(uint8_t code) {
  return int64_t{10'000} * kRnrTimerTensOfMicroseconds[code & 31];
}

}  // namespace uroce::engine
