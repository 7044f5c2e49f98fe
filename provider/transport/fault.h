// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A transport that loses, doubles, delays and damages what another one receives. Seeded: the same seed and
// the same packets give the same faults. For the tests of uroce and of programs over it (UROCE_FAULT,
// uroce-provider(7)).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "provider/transport/transport.h"

namespace uroce::transport {

// Probabilities per received packet, 0 to 1.
struct FaultConfig {
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;  // held back behind the packets that follow it
  double corrupt = 0;  // one bit flipped behind the ICRC check's back: drop it, as the check would
  uint64_t seed = 1;
};

// "drop=0.01,duplicate=0.001,reorder=0.01,corrupt=0.001,seed=7"; empty: no faults. False with a sentence.
bool parse_faults(std::string_view text, FaultConfig& out, std::string& why);

std::unique_ptr<Transport> make_fault_transport(std::unique_ptr<Transport> inner, const FaultConfig& config);

}  // namespace uroce::transport
