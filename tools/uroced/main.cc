// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// uroced: the user driver, one per network namespace and uid.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "tools/uroced/daemonise.h"
#include "tools/uroced/keeper.h"
#include "tools/uroced/listener.h"
#include "tools/uroced/log.h"
#include "tools/uroced/process_scan.h"
#include "tools/uroced/registry.h"
#include "tools/uroced/worker.h"

namespace uroce::daemon {
namespace {

// From here on this process is the keeper.
int serve(const Announce& announce) {
  Inheritance inheritance;
  std::string why;
  if (geteuid() == UROCE_OVERFLOW_UID && !users_are_known()) {
    announce(1,
             "uid 65534 also stands for all users whom this user namespace does not know, so that they could "
             "not be kept "
             "out; be another uid here (unshare -Ur)");
    return 1;
  }
  switch (listen_as(geteuid(), inheritance.names, why)) {
    case Listen::listening: break;
    case Listen::served: announce(0, ""); return 0;
    case Listen::refused:
    case Listen::failed: announce(1, why); return 1;
  }
  inheritance.state = create_state(inheritance.state_memory, why);
  if (inheritance.state == nullptr) {
    announce(1, why);
    return 1;
  }
  return run_keeper(std::move(inheritance), run_worker, announce);
}

// Programs that need us start us with the stand-in in their environment, which must not stand between us and
// the kernel.
void leave_preloads_behind(char** argv) {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || std::strstr(preload, "uroce") == nullptr) return;
  unsetenv("LD_PRELOAD");
  execv("/proc/self/exe", argv);
}

int main(int argc, char** argv) {
  leave_preloads_behind(argv);
  CLI::App app{
      "The user driver of uroce: RDMA devices over Ethernet for the programs of one user in this network "
      "namespace. Normally it "
      "starts by itself on first use; `uroce status` shows it, `uroce stop` ends it.",
      "uroced"};
  bool autostart = false, foreground = false;
  auto* how = app.add_option_group("how");
  how->add_flag("--autostart", autostart,
                "Go to the background; exit 0 as soon as the daemon listens, also if another already does");
  how->add_flag("--foreground", foreground, "Stay, and log to stderr");
  how->require_option(1);
  app.set_version_flag("--version", "uroced " UROCE_VERSION);
  app.footer("UROCE_LOG=FILE appends the log to a file.");
  CLI11_PARSE(app, argc, argv);

  if (autostart) {
    return daemonise([](const Announce& announce) {
      start_log(false);
      return serve(announce);
    });
  }
  reset_process_state();
  start_log(true);
  return serve([](int status, const std::string& text) {
    if (!text.empty()) std::fprintf(stderr, "uroced: %s\n", text.c_str());
    if (status == 0) std::fprintf(stderr, "uroced: process %d\n", getpid());
  });
}

}  // namespace
}  // namespace uroce::daemon

int main(int argc, char** argv) {
  return uroce::daemon::main(argc, argv);
}
