// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/module_arrival.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cstring>

#include "kmod-shim/uapi/uroce_channel.h"

namespace uroce::daemon {

ModuleArrival::ModuleArrival(Loop& loop, std::function<void()> arrived)
    : arrived_(std::move(arrived)), events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  constexpr uint32_t kWanted = IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR;
  if (!events_ || inotify_add_watch(events_.get(), "/dev", kWanted) < 0) return;
  watch_ = std::make_unique<FdWatch>(loop, events_.get(), [this] { read_events(); });
}

void ModuleArrival::read_events() {
  alignas(inotify_event) char buffer[4096];
  bool ours = false;
  for (ssize_t n; (n = read(events_.get(), buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < n;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      ours = ours || (event->len != 0 && std::strcmp(event->name, UROCE_CHANNEL_NODE) == 0);
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
  }
  if (ours) arrived_();
}

}  // namespace uroce::daemon
