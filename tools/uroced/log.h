// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The daemon's log: the last messages in memory (shown by `uroce` through the admin role), stderr in the
// foreground, and the file named by UROCE_LOG.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <vector>

namespace uroce::daemon {

void start_log(bool foreground);
std::vector<std::string> recent_log();

}  // namespace uroce::daemon
