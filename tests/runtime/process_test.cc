// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uroce::runtime {
namespace {

int exit_code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, child_of_fork_knows_it) {
  ASSERT_TRUE(watch_forks());
  EXPECT_FALSE(in_forked_child());
  const pid_t child = fork();
  if (child == 0) _exit(in_forked_child() ? 7 : 1);
  EXPECT_EQ(exit_code_of(child), 7);
  EXPECT_FALSE(in_forked_child());
}

TEST(Process, child_of_raw_clone_knows_it) {
  ASSERT_TRUE(watch_forks());
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) _exit(in_forked_child() ? 7 : 1);
  EXPECT_EQ(exit_code_of(child), 7);
}

}  // namespace
}  // namespace uroce::runtime
