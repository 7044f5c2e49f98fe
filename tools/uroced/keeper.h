// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The keeper: owns what must outlive the worker (descriptors, state) and starts the worker again when it
// dies. It reads nothing that a client sends. The worker gets everything by fork, so the table below is all
// there is to hand over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "tools/uroced/fd.h"
#include "tools/uroced/listener.h"
#include "tools/uroced/state.h"

namespace uroce::daemon {

// What a kept descriptor is; `key` tells which one.
enum class Keep : uint32_t {
  slot_socket = 1,    // key: slot
  connection = 2,     // key: connection position
  client_pidfd = 3,   // key: connection position
  async_far_end = 4,  // key: slot
  slot_page = 5,      // key: slot
  device_page = 6,    // key: device position; mapped, then sealed against further writers
  netlink = 7,
  slot_holder = 8,  // key: slot; pidfd of the process that was given the socket
  tree_lock = 9,
  cm_far_end = 10,  // key: connection position; of a channel of rdma_cm
  module_channel = 11,
};

struct Kept {
  Keep what{};
  uint64_t key = 0;
  int fd = -1;
  void* mapping = nullptr;  // shared memory of the descriptor, where asked for
  size_t map_bytes = 0;
};

class KeptTable {
 public:
  const Kept* find(Keep what, uint64_t key) const;
  const Kept* any() const { return kept_.empty() ? nullptr : &kept_.begin()->second; }
  size_t size() const { return kept_.size(); }
  // Takes the descriptor; one of the same name is closed. Its memory, when asked for, is mapped and sealed.
  void put(Keep what, uint64_t key, Fd fd, size_t map_bytes);
  // Closes and unmaps.
  void drop(Keep what, uint64_t key);
  // In the worker: the entry goes, its descriptor and its mapping stay and are the caller's.
  Fd take(Keep what, uint64_t key);

 private:
  std::map<std::pair<Keep, uint64_t>, Kept> kept_;
};

// One packet from worker to keeper; a put carries one descriptor and is answered with an int32_t, 0 or errno.
struct KeepMessage {
  enum Action : uint32_t { put = 1, drop = 2, ready = 3 };  // ready: this worker serves
  uint32_t action;
  Keep what;
  uint64_t key;
  uint64_t map_bytes;
};

struct Inheritance {
  Names names;
  Fd state_memory;
  State* state = nullptr;
  KeptTable kept;
  Fd keeper;  // the worker's end of the line to the keeper; EOF: the keeper has died
};

// Returns the keeper's exit status, when the worker has left by itself (status 0). `worker` runs in the child
// and returns its exit status; SIGTERM and SIGINT are blocked there until it is ready to leave on them (ours
// are passed on to it). `started` is called once: with 0 when the first worker serves, with another status
// and State::trouble when it could not, and then that is the end.
int run_keeper(Inheritance inheritance, const std::function<int(Inheritance&)>& worker,
               const std::function<void(int status, const std::string& text)>& started);

}  // namespace uroce::daemon
