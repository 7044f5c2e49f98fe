// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/lifetime.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "tools/uroced/process_scan.h"

namespace uroce::daemon {

namespace {

constexpr auto kPeriod = std::chrono::seconds(2);
constexpr auto kSoon = std::chrono::milliseconds(50);
constexpr int64_t kIdleMs = 10 * 60 * 1000;
constexpr int64_t kStillInUseMs = 1000;

int64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
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
      soon_(loop, [this] { check(); }),
      way_(loop, [this] { make_way(); }),
      idle_since_ms_(monotonic_ms()),
      used_ms_(idle_since_ms_) {
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
  if (netns_has_name(netns_inode_)) {
    had_name_ = true;
    return false;
  }
  switch (anybody_in_netns({getpid(), keeper_})) {
    case Presence::somebody: return false;
    case Presence::nobody: return true;
    // It is over only where a name was seen and is gone.
    case Presence::unknown: return had_name_;
  }
  return false;
}

void Lifetime::check_soon() {
  if (!soon_.pending()) soon_.start(kSoon);
}

void Lifetime::note_use() {
  used_ms_ = monotonic_ms();
}

bool Lifetime::is_no_use(bool leave) {
  const Situation now = situation_();
  if (now.attached || now.has_device) return false;
  if (leave && !way_.pending()) {
    const int64_t left = used_ms_ + kStillInUseMs - monotonic_ms();
    way_.start(std::chrono::milliseconds(std::max<int64_t>(left, 0)));
  }
  return true;
}

// Whoever has made a device meanwhile, or attached to one, or is about to, was first.
void Lifetime::make_way() {
  const Situation now = situation_();
  if (now.attached || now.has_device || monotonic_ms() < used_ms_ + kStillInUseMs) return;
  leave_("nobody needs it, and another user does");
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
