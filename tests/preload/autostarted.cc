// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/preload/autostarted.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/preload/fake_daemon.h"

namespace uroce::preload_test {

namespace {

// What it has inherited, for the test to look at.
void write_report(const char* path) {
  std::ofstream report(path);
  const char* preload = std::getenv("LD_PRELOAD");
  report << "preload=" << (preload == nullptr ? "" : preload) << '\n';
  for (int fd = 0; fd < 64; ++fd) {
    char target[256];
    const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target);
    if (n > 0 && fd <= 2) report << fd << '=' << std::string(target, static_cast<size_t>(n)) << '\n';
  }
  report << "inherited=" << (fcntl(40, F_GETFD) >= 0 ? "yes" : "no") << '\n';
}

}  // namespace

int run_as_autostarted_daemon() {
  int ready[2];
  if (pipe(ready) != 0) return 1;
  const pid_t parent = std::atoi(std::getenv("UROCE_TEST_PARENT"));
  write_report(std::getenv("UROCE_TEST_REPORT"));
  const pid_t child = fork();
  if (child != 0) {
    char told;
    close(ready[1]);
    return child > 0 && read(ready[0], &told, 1) == 1 ? 0 : 1;
  }
  setsid();
  const int ends_with = static_cast<int>(syscall(SYS_pidfd_open, parent, 0));
  const FakeDaemon daemon;
  if (ends_with < 0 || write(ready[1], "r", 1) != 1) return 1;
  close(ready[1]);
  pollfd waits{ends_with, POLLIN, 0};
  poll(&waits, 1, -1);
  return 0;
}

}  // namespace uroce::preload_test
