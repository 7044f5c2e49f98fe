// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A communication manager with endpoints in every state, fed with whatever bytes say. Used by the coverage
// fuzzer and by a seeded test.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/uroced/cm/ib_cm.h"

namespace uroce::fuzz {

// Input: records of [action][endpoint][length][bytes of a MAD behind its transaction id]. Action: bits 0-3 a
// call of the owner, bit 4 time passes, bits 5-6 which of three peers sends, bit 7 the bytes are a whole MAD.
// Endpoint: whose id is written where messages have the recipient's (zero or too large: the bytes stay).
class CmFeeder {
 public:
  CmFeeder();
  void feed(std::span<const uint8_t> input);
  // False: more endpoints than allowed, or more said than one message deserves.
  bool sound() const { return sound_; }
  size_t endpoints() const { return endpoints_.size(); }
  uint64_t events() const { return events_; }
  const cm::IbCm::Counters& counters() const { return cm_.counters(); }

 private:
  static constexpr size_t kEndpoints = 64;

  cm::Route route(uint8_t peer) const;
  void call(uint8_t which, cm::Endpoint endpoint);
  void mad(uint8_t action, uint8_t endpoint, std::span<const uint8_t> bytes);
  size_t drain();

  cm::IbCm cm_;
  engine::Time now_{1'000'000'000};
  std::vector<cm::Endpoint> endpoints_;
  uint64_t events_ = 0;
  bool sound_ = true;
};

}  // namespace uroce::fuzz
