// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/lifetime.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "tools/uroced/process_scan.h"

namespace uroce::daemon {

namespace {

constexpr auto kPeriod = std::chrono::seconds(2);
constexpr int64_t kIdleMs = 10 * 60 * 1000;

int64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

bool is_first_process_here(uint64_t netns_inode) {
  struct stat st {};
  return stat("/proc/1/ns/net", &st) == 0 && st.st_ino == netns_inode;
}

// In a user namespace of its own a process can have made the network namespace too; outside, only the
// privileged can.
bool in_user_namespace() {
  std::ifstream map("/proc/self/uid_map");
  uint64_t inside = 0, outside = 0, count = 0;
  return (map >> inside >> outside >> count) && !(inside == 0 && outside == 0 && count == 0xffffffffu);
}

}  // namespace

Lifetime::Lifetime(Loop& loop, pid_t keeper, std::function<Situation()> situation,
                   std::function<void(const std::string&)> leave)
    : keeper_(keeper),
      situation_(std::move(situation)),
      leave_(std::move(leave)),
      netns_inode_(own_netns_inode()),
      names_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      timer_(loop, [this] { check(); }),
      idle_since_ms_(monotonic_ms()) {
  if (names_ && inotify_add_watch(names_.get(), "/run/netns", IN_DELETE | IN_ONLYDIR) >= 0) {
    names_watch_ = std::make_unique<FdWatch>(loop, names_.get(), [this] {
      char events[4096];
      while (read(names_.get(), events, sizeof events) > 0) {
      }
      check();
    });
  }
  timer_.start_every(kPeriod);
}

bool Lifetime::namespace_is_given_up() {
  if (is_first_process_here(netns_inode_)) return false;
  if (netns_has_name(netns_inode_)) {
    had_name_ = true;
    return false;
  }
  switch (anybody_in_netns(netns_inode_, {getpid(), keeper_})) {
    case Presence::somebody: return false;
    case Presence::nobody: return true;
    // Whom we may not look at may well live here. Only where a name was seen and is gone, or where nobody
    // else could have made the namespace, is it over.
    case Presence::unknown: return had_name_ || in_user_namespace();
  }
  return false;
}

void Lifetime::check() {
  const Situation now = situation_();
  if (now.attached || now.has_device) idle_since_ms_ = monotonic_ms();
  if (now.attached) return;
  if (namespace_is_given_up()) {
    leave_("its network namespace is given up");
  } else if (!now.has_device && monotonic_ms() - idle_since_ms_ >= kIdleMs) {
    leave_("no device and no client for ten minutes");
  }
}

}  // namespace uroce::daemon
