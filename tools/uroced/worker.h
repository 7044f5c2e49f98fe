// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The worker: everything the daemon does, put together. Runs in a child of the keeper.
#pragma once

#include "tools/uroced/keeper.h"

namespace uroce::daemon {

// 0: the daemon leaves for good. Anything else, and every death: the keeper starts another one.
int run_worker(Inheritance& inheritance);

}  // namespace uroce::daemon
