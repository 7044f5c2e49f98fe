// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `uroce activate --system` puts the stand-in into set-uid programs too: there the environment is the
// caller's, the privileges are not.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace uroce::preload_test {
namespace {

constexpr uid_t kNobody = 65534;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void make_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
}

// A daemon that never listens, and leaves its environment in `seen`.
void make_daemon(const std::string& path, const std::string& seen) {
  make_file(path, "#!/bin/sh\nenv >" + seen + "\n", 0755);
  make_file(seen, "", 0666);
}

// A machine on which the stand-in is everywhere: an /etc of our own, gone with the mount namespace.
bool make_machine() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", "/etc", "tmpfs", 0, "mode=755") != 0)
    return false;
  std::filesystem::copy_file(UROCE_PRELOAD, "/etc/stand-in.so");
  std::filesystem::copy_file("/usr/bin/stat", "/etc/look");
  make_daemon("/etc/uroced", "/etc/beside");
  make_daemon("/etc/chosen-daemon", "/etc/chosen");
  make_file("/etc/ld.so.preload", "/etc/stand-in.so\n", 0644);
  unsetenv("LD_PRELOAD");
  return setenv("UROCE_DAEMON", "/etc/chosen-daemon", 1) == 0;
}

bool look_as(uid_t uid) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(uid) != 0 || setuid(uid) != 0) _exit(77);
    execl("/etc/look", "look", "/sys/class/infiniband/ur0", nullptr);
    _exit(77);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) != 77;
}

// 0, or which step is not as it should be; 77: it cannot be tried here.
int look_both_ways() {
  if (!make_machine()) return 77;
  chmod("/etc/look", 04755);
  if (!look_as(kNobody)) return 77;
  if (!text_of("/etc/chosen").empty()) return 1;
  if (text_of("/etc/beside").empty()) return 2;
  if (text_of("/etc/beside").find("UROCE_DAEMON") != std::string::npos) return 3;
  if (!look_as(0)) return 4;
  return text_of("/etc/chosen").find("UROCE_DAEMON") == std::string::npos ? 5 : 0;
}

TEST(RaisedPrivileges, the_callers_environment_starts_and_reaches_no_daemon) {
  const pid_t child = fork();
  if (child == 0) _exit(look_both_ways());
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount namespace, or no second user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace uroce::preload_test
