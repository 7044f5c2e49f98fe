// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The only clock of the data path.
#pragma once

#include "provider/engine/path.h"

namespace uroce::runtime {

// CLOCK_MONOTONIC. About 20 ns (vDSO): read once per pass, not per packet.
engine::Time now();

// What to add to now() for CLOCK_REALTIME, as of this call.
int64_t wallclock_offset_ns();

}  // namespace uroce::runtime
