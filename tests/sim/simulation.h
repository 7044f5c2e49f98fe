// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Two engines, a faulty network and programs that check, on a virtual clock. Everything follows from the
// seed.
#pragma once

#include <memory>
#include <string>

#include "tests/sim/flow.h"
#include "tests/sim/network.h"

namespace uroce::sim {

struct Scenario {
  uint64_t seed = 1;
  Faults faults;
  uint32_t pairs = 3;                 // each with a flow in both directions
  uint32_t shared_receive_pairs = 1;  // of them, with an SRQ at either side
  test::QpOptions qp;
  FlowOptions flow;
  double stall = 0;               // per step: the program does not run for a while
  int64_t stall_ns = 40'000'000;  // at most
  int64_t limit_ns = 600'000'000'000;
};
// All of it from the seed: what a network and a machine may do without anything failing.
Scenario moderate_scenario(uint64_t seed, uint64_t operations);

struct Outcome {
  std::string wrong;  // empty: all was right
  uint64_t operations = 0;
  uint64_t hash = 0;  // of every packet and completion, in order, with its time
  uint64_t packets = 0;
  uint64_t lost = 0;
  uint64_t retransmitted = 0;
  int64_t virtual_ns = 0;
};
Outcome simulate(const Scenario& scenario);
std::string describe(const Scenario& scenario);

}  // namespace uroce::sim
