// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The tests run under the stand-in, each in a network namespace of its own, and play uroced themselves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/preload/autostarted.h"

namespace {

bool write_text(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool good = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  return good;
}

// As root, or as the root of a user namespace.
bool enter_namespace() {
  if (unshare(CLONE_NEWNET) == 0) return true;
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && write_text("/proc/self/setgroups", "deny") &&
         write_text("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
         write_text("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

// Under ASan the stand-in comes before the sanitizer's library, as in a user's sanitised program.
void start_again_under_stand_in(char** argv) {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload != nullptr && std::strstr(preload, "uroce-preload") != nullptr) return;
  setenv("LD_PRELOAD", UROCE_PRELOAD, 1);
  const char* options = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS",
         ((options == nullptr ? "" : std::string(options) + ":") + "verify_asan_link_order=0").c_str(), 1);
  execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--autostart") == 0)
    return uroce::preload_test::run_as_autostarted_daemon();
  const bool lists = argc > 1 && std::strstr(argv[1], "--gtest_list_tests") != nullptr;
  if (!lists) {
    start_again_under_stand_in(argv);
    if (!enter_namespace()) {
      std::printf("[  SKIPPED ] cannot make a network namespace: %s\n", std::strerror(errno));
      return 77;
    }
    setenv("UROCE_DAEMON", "/nonexistent/uroced", 1);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
