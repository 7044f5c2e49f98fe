// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Three hosts that connect to each other over a wire that loses, doubles and reorders, and to which an enemy
// writes. What must hold: see CmOwner; and when nobody calls any more, everything ends, nothing is left, and
// no message was repeated more often than its kind may be.
#pragma once

#include <string>

#include "tests/sim/cm_owner.h"

namespace uroce::sim {

struct CmScenario {
  uint64_t seed = 1;
  uint64_t connects = 1000;
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;     // comes up to two seconds late
  double mutate = 0;      // a damaged copy arrives beside the true one
  double forge = 0;       // a copy arrives from another address
  int64_t pause_ms = 20;  // between two connects, at most
  bool patient = false;   // see CmOwner
};

struct CmOutcome {
  std::string wrong;
  CmTally tally;
  uint64_t mads = 0;
  uint64_t retransmitted = 0;
  uint64_t stale = 0;
  uint64_t hash = 0;
  int64_t virtual_ns = 0;
};

CmScenario cm_scenario(uint64_t seed, uint64_t connects);
std::string describe(const CmScenario& scenario);
CmOutcome simulate(const CmScenario& scenario);

}  // namespace uroce::sim
