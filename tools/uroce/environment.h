// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The environment in which programs see uroce devices, as changes to a given one. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/uroce/installation.h"

namespace uroce::cli {

struct Change {
  std::string name;
  std::optional<std::string> value;  // nullopt: unset
};

using GetVariable = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> own_variable(const std::string& name);

// The uroced to start: UROCE_DAEMON's, else the one that belongs to this program.
std::string chosen_daemon(const Installation& parts);

// What is to be set, in front of what is there; nothing for what is there already.
std::vector<Change> entering(const Installation& parts, const GetVariable& now);
// What takes it back and leaves the rest.
std::vector<Change> leaving(const Installation& parts, const GetVariable& now);

// Empty, or why these paths cannot be in such variables: the dynamic linker knows no quoting.
std::string unsuitable_paths(const Installation& parts);

}  // namespace uroce::cli
