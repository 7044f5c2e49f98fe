// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A type per number of the transport: packet sequence numbers wrap at 24 bits, and that is solved here once.
#pragma once

#include <compare>
#include <cstdint>

namespace uroce::wire {

// Packet sequence number, 24 bits (IBA 9.2.3). Arithmetic is modulo 2^24.
class Psn {
 public:
  static constexpr uint32_t kMask = 0xffffff;

  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  constexpr uint32_t value() const { return value_; }
  constexpr Psn operator+(uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(uint32_t n) const { return Psn(value_ - n); }
  constexpr Psn& operator++() {
    value_ = (value_ + 1) & kMask;
    return *this;
  }
  constexpr bool operator==(const Psn&) const = default;

  // Signed distance to here from `from`, in [-2^23, 2^23): positive when this PSN comes after `from`.
  constexpr int32_t distance_from(Psn from) const {
    const uint32_t d = (value_ - from.value_) & kMask;
    return d < 0x800000 ? static_cast<int32_t>(d) : static_cast<int32_t>(d) - 0x1000000;
  }
  constexpr bool before(Psn other) const { return distance_from(other) < 0; }
  constexpr bool after(Psn other) const { return distance_from(other) > 0; }

 private:
  uint32_t value_ = 0;
};

// Queue pair number, 24 bits: slot(10) | index(14). The slot names the opened context (one process's data
// path); every demultiplexer needs only these top bits.
class Qpn {
 public:
  static constexpr uint32_t kIndexBits = 14;
  static constexpr uint32_t kMaxSlot = 1022;  // 1023 is where multicast's 0xffffff points
  static constexpr uint32_t kMulticast = 0xffffff;

  constexpr Qpn() = default;
  constexpr explicit Qpn(uint32_t value) : value_(value & 0xffffff) {}
  static constexpr Qpn of(uint32_t slot, uint32_t index) {
    return Qpn((slot << kIndexBits) | (index & ((1u << kIndexBits) - 1)));
  }

  constexpr uint32_t value() const { return value_; }
  constexpr uint32_t slot() const { return value_ >> kIndexBits; }
  constexpr uint32_t index() const { return value_ & ((1u << kIndexBits) - 1); }
  constexpr bool operator==(const Qpn&) const = default;

 private:
  uint32_t value_ = 0;
};

}  // namespace uroce::wire
