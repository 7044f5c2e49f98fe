// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Everything at once, nothing expected to succeed: hostile packets, wrong keys, regions that go away, queue
// pairs that are reset in the middle. What must hold all the same: no crash, no access outside a registered
// region, and for every posted request exactly one completion, in the order of its queue.
#pragma once

#include <string>

#include "tests/sim/network.h"

namespace uroce::sim {

struct StormOutcome {
  std::string wrong;
  uint64_t posted = 0;
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  uint64_t packets = 0;
  uint64_t resets = 0;
  uint64_t hash = 0;
};

StormOutcome storm(uint64_t seed, uint64_t steps);

}  // namespace uroce::sim
