// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The way between two hosts: delay, a rate, and seeded faults. Each host has a receive buffer that overflows
// while nobody reads.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "tests/engine/world.h"
#include "tests/sim/random.h"

namespace uroce::sim {

struct Faults {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;     // a packet that comes up to `late_ns` later than its turn
  double corrupt = 0;     // found by the ICRC: as good as lost
  double mutate = 0;      // not found: bytes of a hostile sender reach the engine, beside the true packet
  double congestion = 0;  // marked on the way
  int64_t late_ns = 200'000;
  uint32_t buffer_packets = 256;
};

class Network {
 public:
  Network(const Faults& faults, Random& random) : faults_(faults), random_(random) {}

  void send(engine::Time now, uint32_t to, test::Frame&& frame);
  // Packets that have arrived at `host` since it looked last and fitted its buffer, in the order of their
  // arrival.
  void take_arrived(engine::Time now, uint32_t host, std::vector<test::Frame>& out);
  // When the next packet arrives at `host`; INT64_MAX: none is under way.
  int64_t next_arrival(uint32_t host) const {
    return queues_[host].empty() ? INT64_MAX : queues_[host].top().at;
  }
  uint64_t lost() const { return lost_; }

 private:
  struct Travelling {
    int64_t at;
    uint64_t number;
    test::Frame frame;
    bool operator<(const Travelling& other) const {  // the earliest is the queue's greatest
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  void launch(int64_t at, uint32_t to, test::Frame frame);
  void mutate(test::Frame& frame);

  const Faults faults_;
  Random& random_;
  std::priority_queue<Travelling> queues_[3];  // by slot
  int64_t busy_until_[3] = {};
  uint64_t number_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace uroce::sim
