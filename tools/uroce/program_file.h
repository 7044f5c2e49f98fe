// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Whether the dynamic linker will load the stand-in into a program.
#pragma once

#include <optional>
#include <string>

namespace uroce::cli {

// As execvp looks for it; nullopt: there is none.
std::optional<std::string> find_program(const std::string& name);

// Empty, or a sentence about why the program will not see uroce devices, and what to do.
std::string why_out_of_reach(const std::string& name);

}  // namespace uroce::cli
