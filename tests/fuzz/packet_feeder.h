// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// An engine with queue pairs of every type and state, fed with whatever bytes say. Used by the coverage
// fuzzer and by a seeded test.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/engine/world.h"

namespace uroce::fuzz {

// Input: records of [action][queue pair][psn][length, 2 bytes, little-endian][bytes of a packet]. Action: bit
// 0 cuts the packet to a multiple of four, bits 1-3 zero: time passes too, bits 4-6 zero: work is posted.
// Queue pair: whose number is written into the packet (0 or too large: as it stands). Psn: distance from the
// one that is next (-128: as it stands).
class PacketFeeder {
 public:
  PacketFeeder();
  void feed(std::span<const uint8_t> input);
  // False: memory outside every region was touched.
  bool sound() const { return host_.memory.faults() == 0; }

  size_t queue_pairs() const { return members_.size(); }
  const test::Region& region() const { return region_; }
  uint32_t xrc_srq_number() const { return xrc_srq_->number(); }
  const engine::Counters& counters() const { return host_.engine.counters(); }

 private:
  struct Member {
    test::QueuePair* qp = nullptr;
    test::QpOptions options;
  };
  static constexpr uint32_t kFirstPsn = 0xfffff0;

  void add(test::QpType type, test::QpState state, bool shared);
  void bring_up(Member& member, test::QpState state);
  void packet(uint8_t queue_pair, int8_t psn, std::span<const uint8_t> bytes);
  void post(Member& member);
  void drain();

  test::Host host_;
  wire::Gid peer_;
  test::Region region_;
  engine::SharedReceiveQueue* srq_;
  engine::SharedReceiveQueue* xrc_srq_;
  std::vector<Member> members_;
  std::vector<std::byte> storage_;
  engine::TxBatch batch_;
  uint64_t next_id_ = 0;
};

}  // namespace uroce::fuzz
