// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the dynamic linker says when it is asked, in a child process: this one is left as it was.
#pragma once

#include <string>

namespace uroce::cli {

// Empty when a stock program starts with the library in LD_PRELOAD, else what was said.
std::string trouble_with_preload(const std::string& library);

struct VerbsLibrary {
  bool found = false;
  std::string file;            // of libibverbs, all links resolved
  int abi = 0;                 // number in the names of plugins, 0: none that is known
  std::string plugin_trouble;  // empty when the plugin for that ABI loads
};
VerbsLibrary look_at_verbs_library(const std::string& provider_stem);

}  // namespace uroce::cli
