// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Notices when the kernel module is loaded while we run: its node appears in /dev.
#pragma once

#include <functional>
#include <memory>

#include "tools/uroced/fd.h"
#include "tools/uroced/loop.h"

namespace uroce::daemon {

class ModuleArrival {
 public:
  // Calls back when the node has been made or may be opened by others than before; never at once.
  ModuleArrival(Loop& loop, std::function<void()> arrived);

 private:
  void read_events();

  std::function<void()> arrived_;
  Fd events_;  // inotify on /dev; none: only a start of the daemon finds the module
  std::unique_ptr<FdWatch> watch_;
};

}  // namespace uroce::daemon
