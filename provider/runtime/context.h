// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The running data path of one opened device: engine, transport, clock and wake-ups behind one lane. Whoever
// holds the lane makes the progress; a polling thread does it inline, the background thread when nobody
// polls.
//
// Threads: every public member may be called by any thread. None sleeps on the lane: data-path members try it
// and leave (the holder sees what they posted), control members spin with a yield for the short time somebody
// has it. No member is a cancellation point, errno is preserved by data-path members. In a forked child every
// member refuses (see alive()); the child may open a context of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kmod-shim/uapi/uroce_abi.h"
#include "kmod-shim/uapi/uroce_daemon.h"
#include "provider/engine/engine.h"

namespace uroce::runtime {

class Lane;

struct ContextConfig {
  uint32_t slot = 0;  // as GET_CONTEXT answered
  uint64_t cookie = 0;
  // Sends a kick on the context's command descriptor; 0 or a positive errno. Called without the lane, by any
  // thread, also by the background thread; must stay callable until the Context is gone.
  std::function<int(const uroce_kick&)> kick;
};

class Context {
 public:
  // Asks uroced's broker for the slot's sockets and pages and starts the background thread. nullptr with
  // errno; `why` has a sentence for a person.
  static std::unique_ptr<Context> open(const ContextConfig& config, std::string& why);
  // Stops the thread and closes everything. No other member may be running.
  ~Context();

  // False in a forked child: the data path belongs to the parent.
  bool alive() const;

  // ---- control
  // -----------------------------------------------------------------------------------------------------
  // Runs `f` with the lane held and drains the engine's outputs afterwards. `f` must not call back into this
  // Context.
  template <typename F>
  auto control(F&& f) {
    LaneHold hold(*this);
    return f(hold.engine(), hold.now());
  }
  // Address vector of GID index `sgid_index` to `destination`; needs the lane to be free. Id 0 with errno
  // EINVAL for an empty or unknown index, a zero destination, or different families. Release each id once.
  engine::PathId intern_path(uint8_t sgid_index, const wire::Gid& destination, uint8_t traffic_class,
                             uint8_t hop_limit, uint32_t flow_label, engine::Path* resolved = nullptr);
  void release_path(engine::PathId id);
  // The kernel-side membership (IGMP/MLD) of a group; the engine's attach_multicast is the caller's business.
  // 0 or errno.
  int join_group(const wire::Gid& group);
  int leave_group(const wire::Gid& group);

  // ---- data path
  // --------------------------------------------------------------------------------------------------- Work
  // was posted (under the queue's own lock, which may still be held): tells the engine and makes progress if
  // the lane is free.
  void posted(engine::QueuePair* qp);
  // A poller found less than it asked for: makes progress inline. Cheap when there is nothing to do.
  void progress();
  // A CQ was armed: the background thread watches the socket from now on.
  void armed();

  // ---- events
  // --------------------------------------------------------------------------------------------------------
  // An object was destroyed in the engine: no kick about it is sent after this returns. `kick_kind`: enum
  // uroce_kick_kind. Call it between the engine's destroy and the DESTROY command, whose answer counts the
  // events that were delivered.
  void forget_events(uint32_t kick_kind, uint32_t id);
  // Shows the QP's state to `rdma resource show qp`; after each modify and at an async event.
  void publish_qp(const engine::QueuePair* qp);

  // ---- look
  // --------------------------------------------------------------------------------------------------------
  // Consistent copy of uroced's device page (GIDs, port state, MTU).
  void device_page(uroce_device_page& out) const;
  // One GID; false when the slot is empty.
  bool gid(uint32_t index, uroce_gid_entry& out) const;
  // The device is gone (link deleted, daemon died): commands answer EIO, queues have been flushed.
  bool fatal() const;
  int64_t now_ns() const;  // clock of the completion timestamps, CLOCK_MONOTONIC
  uint32_t slot() const;

 private:
  class LaneHold {
   public:
    explicit LaneHold(Context& context);
    ~LaneHold();
    engine::Engine& engine();
    engine::Time now();

   private:
    Context& context_;
  };
  int change_membership(const wire::Gid& group, bool join);
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::runtime
