// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The only clock of the data path.
#pragma once

#include "provider/engine/path.h"

namespace uroce::runtime {

// CLOCK_MONOTONIC. About 20 ns (vDSO): read once per pass, not per packet.
engine::Time now();

}  // namespace uroce::runtime
