// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/daemonise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::daemon {

namespace {

constexpr int kStartTimeoutMs = 10'000;

void close_from(unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const unsigned end = limit.rlim_cur > 65536 ? 65536 : static_cast<unsigned>(limit.rlim_cur);
  for (unsigned fd = first; fd < end; ++fd) close(static_cast<int>(fd));
}

void standard_streams_to_null() {
  const int null = open("/dev/null", O_RDWR);
  if (null < 0) return;
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  if (null > 2) close(null);
}

struct Announcement {
  int status = 1;
  char text[1020] = {};
};

int wait_for_announcement(int pipe_end) {
  pollfd waits{pipe_end, POLLIN, 0};
  Announcement told;
  const int ready = poll(&waits, 1, kStartTimeoutMs);
  if (ready <= 0 || read(pipe_end, &told, sizeof told) != static_cast<ssize_t>(sizeof told)) {
    std::fprintf(stderr,
                 ready == 0 ? "uroced: the daemon did not come up in %d s\n"
                            : "uroced: the daemon died while it started\n",
                 kStartTimeoutMs / 1000);
    return 1;
  }
  told.text[sizeof told.text - 1] = '\0';
  if (told.text[0] != '\0') std::fprintf(stderr, "uroced: %s\n", told.text);
  return told.status;
}

}  // namespace

void reset_process_state() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  // A daemon leaves when it is asked to, not because a terminal or a timer of somebody else ends.
  for (const int number : {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM}) signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  umask(022);
  if (chdir("/") != 0) std::fprintf(stderr, "uroced: cannot change to /: %s\n", std::strerror(errno));
}

int daemonise(const std::function<int(const Announce&)>& body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    std::fprintf(stderr, "uroced: cannot make a pipe: %s\n", std::strerror(errno));
    return 1;
  }
  const pid_t middle = fork();
  if (middle < 0) {
    std::fprintf(stderr, "uroced: cannot fork: %s\n", std::strerror(errno));
    return 1;
  }
  if (middle > 0) {
    close(ends[1]);
    const int status = wait_for_announcement(ends[0]);
    while (waitpid(middle, nullptr, 0) < 0 && errno == EINTR) {
    }
    return status;
  }
  setsid();
  if (const pid_t last = fork(); last != 0) _exit(last < 0 ? 1 : 0);

  // The pipe itself may be among the standard descriptors, if the starter had closed some.
  const int pipe_end = fcntl(ends[1], F_DUPFD_CLOEXEC, 4);
  standard_streams_to_null();
  const int line = 3;
  if (pipe_end < 0 || dup3(pipe_end, line, O_CLOEXEC) != line) _exit(1);
  close_from(line + 1);
  reset_process_state();
  std::exit(body([line](int status, const std::string& text) {
    Announcement told;
    told.status = status;
    std::snprintf(told.text, sizeof told.text, "%s", text.c_str());
    [[maybe_unused]] const ssize_t n = write(line, &told, sizeof told);
    close(line);
  }));
}

}  // namespace uroce::daemon
