// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// uroce for every program of a system: a line in /etc/ld.so.preload, and a driver file for libibverbs. For
// disposable images, and for programs behind sudo; both files are replaced whole, and what others wrote in
// them stays.
#pragma once

#include <string>

#include "tools/uroce/installation.h"

namespace uroce::cli {

// Empty, or why it was not done: a sentence. `root` is the directory that stands for /.
std::string activate_in(const std::string& root, const Installation& parts);
std::string deactivate_in(const std::string& root, const Installation& parts);

bool is_active_in(const std::string& root, const Installation& parts);

}  // namespace uroce::cli
