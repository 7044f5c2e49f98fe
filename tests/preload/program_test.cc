// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Stock programs under the stand-in.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/preload/fake_daemon.h"

namespace uroce::preload_test {
namespace {

class Programs : public ::testing::Test {
 protected:
  // What the shell command prints, and its exit status if that is not 0.
  static std::string run(const std::string& command) {
    FILE* stream = popen((command + " 2>&1").c_str(), "r");
    if (stream == nullptr) return "popen failed";
    std::string text;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, stream)) > 0;) text.append(buffer, n);
    const int status = pclose(stream);
    return status == 0 ? text : text + "status " + std::to_string(WEXITSTATUS(status));
  }

  FakeDaemon daemon_;
};

TEST_F(Programs, bash__walks_about) {
  EXPECT_EQ(
      run("bash -c 'cd /sys/class/infiniband && pwd && ls && cat ur0/node_guid && cd ur0/ports && echo *'"),
      "/sys/class/infiniband\nhost0\nur0\n0011:2233:4455:6677\n1\n");
  EXPECT_EQ(run("bash -c '[ -c /dev/infiniband/uverbs0 ] && echo /sys/class/infiniband/u*'"),
            "/sys/class/infiniband/ur0\n");
}

TEST_F(Programs, coreutils) {
  EXPECT_EQ(run("stat -c '%F %t:%T %a' /dev/infiniband/uverbs0"), "character special file e7:c0 666\n");
  EXPECT_EQ(run("readlink -f /sys/class/infiniband/ur0"), "/sys/devices/platform/uroce.0/infiniband/ur0\n");
  EXPECT_EQ(run("realpath /sys/class/infiniband/ur0/device"), "/sys/devices/platform/uroce.0\n");
  EXPECT_EQ(run("ls -l /dev/infiniband | grep -c '^crw-rw-rw-'"), "2\n");
  EXPECT_EQ(run("ls -lL /sys/class/infiniband/ur0/ | tail -1 | grep -o ports"), "ports\n");
}

TEST_F(Programs, python__subprocess_and_closed_numbers) {
  EXPECT_EQ(run("/usr/bin/python3 " UROCE_TEST_SOURCE "/odd_descriptors.py"), "all as expected\n");
}

TEST_F(Programs, sh__command_substitution) {
  EXPECT_EQ(run("sh -c 'x=$(ls /sys/class/infiniband); echo $x'"), "host0 ur0\n");
}

}  // namespace
}  // namespace uroce::preload_test
