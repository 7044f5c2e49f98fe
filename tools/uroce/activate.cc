// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `uroce activate --system`, `uroce deactivate --system`.
#include <cstdio>

#include "tools/uroce/activation.h"
#include "tools/uroce/commands.h"

namespace uroce::cli {

int activate(const std::string& root) {
  if (const std::string why = activate_in(root, installation()); !why.empty()) {
    complain("nothing is activated: " + why);
    return kFailed;
  }
  std::printf(
      "Every dynamically linked program that starts from now on sees uroce devices. To take it back: uroce "
      "deactivate --system\n");
  return 0;
}

int deactivate(const std::string& root) {
  if (const std::string why = deactivate_in(root, installation()); !why.empty()) {
    complain(why);
    return kFailed;
  }
  std::printf("Programs that start from now on see uroce devices only through `uroce run` or `uroce env`.\n");
  return 0;
}

}  // namespace uroce::cli
