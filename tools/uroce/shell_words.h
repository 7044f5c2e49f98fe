// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Text for a POSIX shell to read back, whatever is in it.
#pragma once

#include <string>
#include <vector>

#include "tools/uroce/environment.h"

namespace uroce::cli {

std::string quoted(const std::string& text);
// One `export` or `unset` per line.
std::string shell_commands(const std::vector<Change>& changes);

}  // namespace uroce::cli
