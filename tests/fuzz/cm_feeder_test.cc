// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A short seeded run of what the coverage fuzzer does at length.
#include "tests/fuzz/cm_feeder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/random.h"

namespace uroce::fuzz {
namespace {

#ifdef UROCE_SIM_SHORT
constexpr int kRecords = 20'000;
#else
constexpr int kRecords = 300'000;
#endif

// A message that is mostly well formed; its bytes start at the attribute.
wire::CmMessage message(sim::Random& random) {
  const auto id = static_cast<uint32_t>(random.between(1, 40));
  const auto of = static_cast<wire::CmMessageKind>(random.below(4));
  switch (random.below(9)) {
    case 0: {
      wire::CmReq m;
      m.local_id = id;
      m.local_qpn = id % 4;
      m.transport = static_cast<wire::CmTransport>(random.chance(0.9) ? 0 : random.below(4));
      m.local_response_timeout = static_cast<uint8_t>(random.below(32));
      m.max_cm_retries = static_cast<uint8_t>(random.below(16));
      m.primary.local_ack_timeout = static_cast<uint8_t>(random.below(32));
      m.primary.local_gid.raw[15] = static_cast<uint8_t>(random.between(2, 4));
      return m;
    }
    case 1: return wire::CmMra{id, id, of, static_cast<uint8_t>(random.below(32)), {}};
    case 2: {
      wire::CmRej m;
      m.local_id = id;
      m.remote_id = random.chance(0.3) ? 0 : id;
      m.of = of;
      m.reason = static_cast<wire::CmRejectReason>(random.below(40));
      return m;
    }
    case 3: {
      wire::CmRep m;
      m.local_id = id;
      m.local_qpn = id;
      m.target_ack_delay = static_cast<uint8_t>(random.below(32));
      return m;
    }
    case 4: return wire::CmRtu{id, id, {}};
    case 5: return wire::CmDreq{id, id, static_cast<uint32_t>(random.below(3)), {}};
    case 6: return wire::CmDrep{id, id, {}};
    case 7: return wire::CmSidrReq{id, 0xffff, id, {}};
    default: return wire::CmSidrRep{};
  }
}

std::vector<uint8_t> record(sim::Random& random, const CmFeeder& feeder) {
  wire::Mad mad;
  wire::write_cm(message(random), 1, mad);
  std::vector<uint8_t> out = {static_cast<uint8_t>(random.below(random.chance(0.05) ? 256 : 128)),
                              static_cast<uint8_t>(random.below(feeder.endpoints() + 2)), 0};
  for (size_t i = 16; i < mad.size(); ++i) out.push_back(std::to_integer<uint8_t>(mad[i]));
  if (random.chance(0.2)) out[3 + random.below(130)] = static_cast<uint8_t>(random.below(256));
  if (random.chance(0.05)) out.resize(random.between(3, out.size()));
  out[2] = static_cast<uint8_t>(out.size() - 3);
  return out;
}

TEST(CmFeeder, nothing_a_peer_sends_breaks_the_communication_manager) {
  sim::Random random(20261202);
  CmFeeder feeder;
  for (int i = 0; i < kRecords; ++i) feeder.feed(record(random, feeder));
  EXPECT_TRUE(feeder.sound());
  // It did not stop at the door.
  const cm::IbCm::Counters& c = feeder.counters();
  EXPECT_GT(c.malformed, kRecords / 500u);
  EXPECT_GT(c.duplicates, kRecords / 100u);
  EXPECT_GT(c.unexpected, kRecords / 100u);
  EXPECT_GT(c.no_resources, 0u);
  EXPECT_GT(c.stale, 0u);
  EXPECT_GT(c.retransmitted, kRecords / 100u);
  EXPECT_GT(feeder.events(), kRecords / 20u);
}

}  // namespace
}  // namespace uroce::fuzz
