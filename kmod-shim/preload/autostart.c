// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/autostart.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/signals.h"

extern char** environ;

enum { stack_bytes = 32 * 1024, stacks = 2 };

struct start {
  const char* path;
  char** environment;
  char* stack;  // of the process that becomes the daemon
};

static int wait_for(pid_t child) {
  int status = -1;
  long waited;
  do {
    waited = RAW(SYS_wait4, child, &status, __WALL, NULL);
  } while (waited == -EINTR);
  // Where SIGCHLD is ignored there is no status; whether the daemon is there shows when it is asked.
  return waited == child ? status : 0;
}

// Both of these run in the program's memory while its calling thread sleeps, with signals blocked: system
// calls only.
static int become_daemon(void* argument) {
  const struct start* start = argument;
  const int null = (int)RAW(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
  for (int fd = 0; null >= 0 && fd <= 2; ++fd) {
    if (fd != null) RAW(SYS_dup3, null, fd, 0);
  }
  RAW(SYS_close_range, 3u, ~0u, 0u);
  char* const arguments[] = {(char*)start->path, (char*)"--autostart", NULL};
  RAW(SYS_execve, start->path, arguments, start->environment);
  RAW(SYS_exit, 127);
  return 127;
}

// A process that executes a program sends its parent SIGCHLD, whatever clone() was told. So this one is in
// between.
static int start_daemon(void* argument) {
  const struct start* start = argument;
  const pid_t child = clone(become_daemon, start->stack, CLONE_VM | CLONE_VFORK | SIGCHLD, argument);
  const int status = child > 0 ? wait_for(child) : -1;
  RAW(SYS_exit, status == 0 ? 0 : 1);
  return 1;
}

static bool run_and_wait(const char* path) {
  // With raised privileges (setuid under /etc/ld.so.preload) what the caller has set is nothing for the
  // daemon.
  char* const* given = getauxval(AT_SECURE) != 0 ? NULL : environ;
  size_t count = 0;
  while (given != NULL && given[count] != NULL) ++count;
  const size_t bytes = stacks * stack_bytes + (count + 1) * sizeof(char*);
  const long at =
      RAW(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0L);
  if (at < 0 && at > -4096) return false;

  struct start start = {
      .path = path, .environment = (char**)(at + stacks * stack_bytes), .stack = (char*)at + 2 * stack_bytes};
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strncmp(given[i], "LD_PRELOAD=", 11) != 0) start.environment[kept++] = given[i];
  }
  start.environment[kept] = NULL;

  const uint64_t signals = signals_block();
  const int saved = errno;
  // No exit signal: only those who ask for clone children find it.
  const pid_t child = clone(start_daemon, (char*)at + stack_bytes, CLONE_VM | CLONE_VFORK, &start);
  errno = saved;
  const int status = child > 0 ? wait_for(child) : -1;
  signals_restore(signals);
  RAW(SYS_munmap, at, bytes);
  return status == 0;
}

// `directory` of `file`, `relative` behind it; false when it is too long.
static bool beside(const char* file, const char* relative, char out[PATH_MAX]) {
  const char* slash = strrchr(file, '/');
  const size_t stem = slash == NULL ? 0 : (size_t)(slash - file) + 1;
  const size_t rest = strlen(relative) + 1;
  if (stem + rest > PATH_MAX) return false;
  memcpy(out, file, stem);
  memcpy(out + stem, relative, rest);
  return true;
}

// dladdr takes the loader's lock, and a thread that has it, in dlopen, may wait for one of ours.
static const char* own_file;
__attribute__((constructor)) static void find_own_file(void) {
  Dl_info self;
  if (dladdr((const void*)&autostart_daemon, &self) != 0) own_file = self.dli_fname;
}

bool autostart_daemon(void) {
  const char* chosen = secure_getenv("UROCE_DAEMON");
  if (chosen != NULL) return chosen[0] == '/' && run_and_wait(chosen);
  if (own_file == NULL) find_own_file();
  if (own_file == NULL) return false;
  static const char* const places[] = {"uroced", "../../tools/uroced/uroced"};  // installed, build tree
  for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
    char path[PATH_MAX];
    if (!beside(own_file, places[i], path)) continue;
    struct stat st;
    if (raw_stat_at(AT_FDCWD, path, &st, 0) == 0 && S_ISREG(st.st_mode)) return run_and_wait(path);
  }
  return false;
}
