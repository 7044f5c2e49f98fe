// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// When to leave: a daemon must not keep alive a network namespace that everybody else has given up, nor sit
// idle for ever.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "tools/uroced/fd.h"
#include "tools/uroced/loop.h"

namespace uroce::daemon {

class Lifetime {
 public:
  struct Situation {
    bool attached;  // a client holds a device, or its data path, open
    bool has_device;
  };
  Lifetime(Loop& loop, pid_t keeper, std::function<Situation()> situation,
           std::function<void(const std::string&)> leave);

  uint64_t netns_inode() const { return netns_inode_; }
  void check();
  void check_soon();  // after something that may matter, such as a client's end; once for many

  // A process of our own uid has asked for something; our start counts too.
  void note_use();
  // Whether nobody needs us; with `leave`, because somebody of another uid wants a daemon of his own here, we
  // go. What our own uid asked for a moment ago is done first, though.
  bool is_no_use(bool leave);

 private:
  bool namespace_is_given_up();
  void make_way();

  pid_t keeper_;
  std::function<Situation()> situation_;
  std::function<void(const std::string&)> leave_;
  uint64_t netns_inode_;
  bool had_name_ = false;
  Fd names_;  // inotify on the directory where `ip netns` keeps its names
  std::unique_ptr<FdWatch> names_watch_;
  Timer timer_, soon_, way_;
  int64_t idle_since_ms_;
  int64_t used_ms_;
};

}  // namespace uroce::daemon
