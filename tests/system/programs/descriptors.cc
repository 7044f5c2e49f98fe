// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Closes, reuses and doubles descriptors in the ways programs do, with a device open: no file may lose a
// byte, and the device works until its own descriptor is gone. Usage: descriptors
// close_range|fclose|dup2|vfork|spawn
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "verbs_pair.h"

namespace {

// Opens, writes and reads back a file at whatever number comes.
void log_file_is_whole() {
  char name[] = "/tmp/uroce-descriptors-XXXXXX";
  const int fd = mkstemp(name);
  REQUIRE(fd >= 0);
  const std::string text(1000, 'l');
  REQUIRE(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  struct stat st;
  REQUIRE(fstat(fd, &st) == 0);
  REQUIRE(S_ISREG(st.st_mode) && st.st_size == 1000);
  unlink(name);
  close(fd);
}

void close_range_case(ibv_context* context) {
  { Pair(context).write_and_check(1); }
  REQUIRE(close_range(3, ~0u, 0) == 0);
  for (int i = 0; i < 20; ++i) log_file_is_whole();
  // The device is gone for this program; it must say so, not hang or crash.
  REQUIRE(ibv_alloc_pd(context) == nullptr);
}

void fclose_case(ibv_context* context) {
  const int number = context->cmd_fd;
  FILE* file = fdopen(number, "w");
  REQUIRE(file != nullptr);
  std::fclose(file);
  // The same number now belongs to a file.
  char name[] = "/tmp/uroce-descriptors-XXXXXX";
  const int fd = mkstemp(name);
  REQUIRE(dup2(fd, number) == number);
  const std::string text(500, 'f');
  REQUIRE(write(number, text.data(), text.size()) == 500);
  struct stat st;
  REQUIRE(fstat(fd, &st) == 0 && st.st_size == 500);
  unlink(name);
  log_file_is_whole();
}

void dup2_case(ibv_context* context) {
  Pair pair(context);
  const int spare = dup(context->cmd_fd);
  REQUIRE(spare >= 0);
  struct stat original, doubled;
  REQUIRE(fstat(context->cmd_fd, &original) == 0 && fstat(spare, &doubled) == 0);
  REQUIRE(S_ISCHR(original.st_mode) && S_ISCHR(doubled.st_mode) && original.st_rdev == doubled.st_rdev);
  // Over its original number goes a file, then the descriptor comes back.
  const int number = context->cmd_fd;
  const int null = open("/dev/null", O_WRONLY);
  REQUIRE(dup2(null, number) == number);
  REQUIRE(write(number, "x", 1) == 1);
  REQUIRE(dup2(spare, number) == number);
  close(spare);
  close(null);
  pair.write_and_check(2);
  ibv_pd* pd = ibv_alloc_pd(context);
  REQUIRE(pd != nullptr && ibv_dealloc_pd(pd) == 0);
  log_file_is_whole();
}

void vfork_case(ibv_context* context) {
  Pair pair(context);
  for (int i = 0; i < 50; ++i) {
    const pid_t child = vfork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close_range(3, ~0u, 0);
      execl("/bin/true", "true", nullptr);
      _exit(1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    pair.write_and_check(static_cast<unsigned char>(i));
  }
  ibv_pd* pd = ibv_alloc_pd(context);
  REQUIRE(pd != nullptr && ibv_dealloc_pd(pd) == 0);
}

void spawn_case(ibv_context* context) {
  Pair pair(context);
  for (int i = 0; i < 20; ++i) {
    pid_t child;
    char name[] = "true";
    char* argv[] = {name, nullptr};
    REQUIRE(posix_spawn(&child, "/bin/true", nullptr, nullptr, argv, environ) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    pair.write_and_check(static_cast<unsigned char>(i));
  }
  // The daemon was started by this program or not: it never is its child.
  REQUIRE(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  ibv_context* context = open_device();
  if (which == "close_range") {
    close_range_case(context);
  } else if (which == "fclose") {
    fclose_case(context);
  } else if (which == "dup2") {
    dup2_case(context);
    REQUIRE(ibv_close_device(context) == 0);
  } else if (which == "vfork") {
    vfork_case(context);
    REQUIRE(ibv_close_device(context) == 0);
  } else if (which == "spawn") {
    spawn_case(context);
    REQUIRE(ibv_close_device(context) == 0);
  } else {
    fail("usage: descriptors close_range|fclose|dup2|vfork|spawn");
  }
  std::puts("done");
}
