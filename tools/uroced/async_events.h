// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Asynchronous events that come from the daemon (port, GIDs, device gone): 16-byte records into the sockets
// whose other ends are the programs' async_fd. The provider's own events (CQ, QP, SRQ) do not come through
// here.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <deque>
#include <map>
#include <memory>

#include "tools/uroced/keeper_line.h"
#include "tools/uroced/loop.h"

namespace uroce::daemon {

class AsyncEvents {
 public:
  AsyncEvents(Loop& loop, KeeperLine& keeper) : loop_(loop), keeper_(keeper) {}

  struct Pair {
    Fd program_end, far_end;
  };
  // A fresh pair for the context of `slot`; the far end is kept here too, in the place of an earlier one.
  // False with errno.
  bool make_pair(uint32_t slot, Pair& out);
  void adopt(uint32_t slot);
  void drop(uint32_t slot);

  void raise(uint32_t slot, uint32_t event_type, uint64_t element);

 private:
  struct Queue {
    Fd far_end;
    std::deque<ib_uverbs_async_event_desc> waiting;
    std::unique_ptr<FdWatch> watch;  // while something waits
  };

  void flush(uint32_t slot);

  Loop& loop_;
  KeeperLine& keeper_;
  std::map<uint32_t, Queue> queues_;
};

}  // namespace uroce::daemon
