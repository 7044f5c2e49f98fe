// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `uroce stop`: here, or in every network namespace in which one of our daemons is seen.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "tools/uroce/commands.h"
#include "tools/uroce/daemon_line.h"
#include "tools/uroce/fd.h"
#include "tools/uroce/processes.h"

namespace uroce::cli {

namespace {

constexpr int kPatienceMs = 10'000;

// The keeper outlives the worker by a moment; who stops a daemon wants the namespace free afterwards.
void wait_for_end(pid_t process) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (fd < 0) return;
  pollfd waits{fd, POLLIN, 0};
  poll(&waits, 1, kPatienceMs);
  close(fd);
}

int stop_this(DaemonLine& line) {
  const auto status = line.status();
  const auto answer = status.value("ok", false) ? line.ask({{"command", "stop"}}) : status;
  if (!answer.value("ok", false)) {
    complain(answer.value("error", "uroced has refused to stop"));
    return kFailed;
  }
  wait_for_end(status.value("keeper_pid", 0));
  return 0;
}

struct Place {
  pid_t pid;
  uid_t uid;
};

// One daemon process for each network namespace and user.
std::map<std::pair<uint64_t, uid_t>, Place> daemons() {
  std::map<std::pair<uint64_t, uid_t>, Place> found;
  for (const pid_t pid : all_processes()) {
    if (command_name(pid) != "uroced") continue;
    struct stat process {
    }, netns{};
    if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0 ||
        stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &netns) != 0) {
      continue;
    }
    if (geteuid() != 0 && process.st_uid != geteuid()) continue;
    found.insert({{netns.st_ino, process.st_uid}, {pid, process.st_uid}});
  }
  return found;
}

bool enter(const Place& place) {
  const std::string path = fmt::format("/proc/{}/ns/net", place.pid);
  struct stat own {
  }, other{};
  if (stat("/proc/self/ns/net", &own) != 0 || stat(path.c_str(), &other) != 0) return false;
  if (own.st_ino != other.st_ino) {
    const Fd netns(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!netns || setns(netns.get(), CLONE_NEWNET) != 0) return false;
  }
  // A daemon listens to its own user only.
  return geteuid() == place.uid || setresuid(place.uid, place.uid, place.uid) == 0;
}

int stop_at(const Place& place) {
  const pid_t child = fork();
  if (child == 0) {
    if (!enter(place)) {
      complain(fmt::format("cannot enter the network namespace of process {}: {}", place.pid,
                           std::strerror(errno)));
      _exit(kFailed);
    }
    DaemonLine::Failure failure;
    std::string why;
    const auto line = DaemonLine::connect(failure, why);
    if (line == nullptr) {
      if (failure != DaemonLine::Failure::nobody) complain(why);
      _exit(failure == DaemonLine::Failure::nobody ? 0 : kFailed);
    }
    _exit(stop_this(*line));
  }
  int status = 0;
  if (child < 0) return kFailed;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

}  // namespace

int stop_daemon(bool everywhere) {
  if (everywhere) {
    int worst = 0;
    for (const auto& [key, place] : daemons()) worst = std::max(worst, stop_at(place));
    return worst;
  }
  DaemonLine::Failure failure;
  std::string why;
  const auto line = DaemonLine::connect(failure, why);
  if (line != nullptr) return stop_this(*line);
  if (failure == DaemonLine::Failure::nobody) return 0;  // as asked for
  complain(why);
  return kFailed;
}

}  // namespace uroce::cli
