// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/preload/program.h"

#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace uroce::preload_test {

int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool child_says(const std::function<bool()>& body) {
  return in_child([&] { return body() ? 1 : 0; }) == 1;
}

std::string make_file_at(int fd) {
  char name[] = "/tmp/uroce-preload-file-XXXXXX";
  const int made = mkstemp(name);
  if (made != fd) {
    EXPECT_EQ(dup2(made, fd), fd);
    close(made);
  }
  return name;
}

void expect_file_takes_writes(int fd, const std::string& name) {
  unlink(name.c_str());
  // Too short: as a command, either device would refuse it.
  const ib_uverbs_cmd_hdr looks_like_a_command{IB_USER_VERBS_CMD_ALLOC_PD, 4, 2};
  EXPECT_EQ(write(fd, &looks_like_a_command, sizeof looks_like_a_command),
            static_cast<ssize_t>(sizeof looks_like_a_command));
  struct stat st;
  ASSERT_EQ(fstat(fd, &st), 0);
  EXPECT_TRUE(S_ISREG(st.st_mode));
  EXPECT_EQ(st.st_size, static_cast<off_t>(sizeof looks_like_a_command));
  close(fd);
}

}  // namespace uroce::preload_test
