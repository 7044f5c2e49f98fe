// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The worker's side of the line to the keeper: gives it descriptors to hold, and finds those it inherited.
#pragma once

#include <cstdint>

#include "tools/uroced/keeper.h"

namespace uroce::daemon {

class KeeperLine {
 public:
  KeeperLine(Fd line, KeptTable inherited) : line_(std::move(line)), inherited_(std::move(inherited)) {}

  int descriptor() const { return line_.get(); }  // readable: the keeper has died

  // The keeper gets a duplicate; `fd` stays the caller's. False with errno when the keeper is gone or out of
  // descriptors.
  bool keep(Keep what, uint64_t key, int fd, size_t map_bytes = 0);
  void drop(Keep what, uint64_t key);
  // This worker serves.
  void tell_ready();

  // What an earlier worker left; the descriptor is the caller's from now on (the keeper has its own).
  Fd take_inherited(Keep what, uint64_t key) { return inherited_.take(what, key); }
  const Kept* inherited(Keep what, uint64_t key) const { return inherited_.find(what, key); }
  // What nobody has claimed: of things that were half made when the earlier worker died.
  void discard_unclaimed();

 private:
  Fd line_;
  KeptTable inherited_;
};

}  // namespace uroce::daemon
