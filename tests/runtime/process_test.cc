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
  const uint32_t mine = process_generation();
  ASSERT_NE(mine, 0u);
  EXPECT_TRUE(is_generation(mine));
  const pid_t child = fork();
  if (child == 0) _exit(is_generation(mine) ? 1 : 7);
  EXPECT_EQ(exit_code_of(child), 7);
  EXPECT_TRUE(is_generation(mine));
  EXPECT_EQ(process_generation(), mine);
}

TEST(Process, child_of_raw_clone_knows_it) {
  const uint32_t mine = process_generation();
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) _exit(is_generation(mine) ? 1 : 7);
  EXPECT_EQ(exit_code_of(child), 7);
}

TEST(Process, each_process_in_a_line_has_a_number_of_its_own) {
  const uint32_t mine = process_generation();
  const pid_t child = fork();
  if (child == 0) {
    const uint32_t childs = process_generation();
    if (childs == mine || !is_generation(childs) || is_generation(mine)) _exit(1);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      const uint32_t own = process_generation();
      _exit(own != childs && own != mine && is_generation(own) && !is_generation(childs) ? 7 : 1);
    }
    _exit(exit_code_of(grandchild));
  }
  EXPECT_EQ(exit_code_of(child), 7);
}

}  // namespace
}  // namespace uroce::runtime
