// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Where the parts of uroce are: beside this program in a build tree, else where they were installed.
#pragma once

#include <string>

namespace uroce::cli {

struct Installation {
  std::string stand_in;  // shared object for LD_PRELOAD
  std::string provider;  // stem: libibverbs appends "-rdmav34.so" or another number
  std::string daemon;    // uroced
  bool is_build_tree = false;
};

const Installation& installation();

// Empty, or a sentence about what is not there.
std::string what_is_missing(const Installation& parts);

}  // namespace uroce::cli
