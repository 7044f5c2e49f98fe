// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the protocol's parts (requester, responder, datagrams) share inside one engine: objects, memory,
// completions, events, lists and timers. All of it is touched under the lane only, but for ring().
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "provider/engine/congestion.h"
#include "provider/engine/engine.h"
#include "provider/engine/event_queue.h"
#include "provider/engine/memory_table.h"
#include "provider/engine/qp.h"
#include "provider/engine/timer_heap.h"

namespace uroce::engine {

// The result of one turn of a queue pair at the batch.
enum class Turn : uint8_t { idle, more, batch_full };

struct CoreCq final : CompletionQueue {
  using CompletionQueue::CompletionQueue;
  uint32_t notifications = 0;  // fired and not yet taken by poll_event
  int64_t moderation_ns = 0;   // how long one is held at most; 0: without end
  TimerSlot timer;
  bool failed = false;
};

struct Core {
  Core(const EngineConfig& config, MemoryAccess& memory);

  EngineConfig config;
  MemoryAccess& memory;
  Counters counters;
  MemoryTable regions;
  DestinationTable destinations;
  EventQueue events;
  std::atomic<uint32_t> port_mtu_bytes;
  Time acks_held_until{INT64_MIN / 2};
  wire::Packet packet;  // that is being taken; here because clearing one for each packet shows in profiles

  // ---- objects ----------------------------------------------------------------------------------
  std::vector<std::unique_ptr<CoreCq>> cqs;
  std::unordered_map<uint32_t, std::unique_ptr<SharedReceiveQueue::Impl>> srqs;  // by number
  std::vector<std::unique_ptr<Qp>> qps;                                          // by index bits of the QPN
  uint32_t qp_count = 0;
  struct GidHash {
    size_t operator()(const wire::Gid& gid) const;
  };
  std::unordered_map<wire::Gid, std::vector<Qp*>, GidHash> multicast;

  // ---- who has something to do ------------------------------------------------------------------
  std::atomic<Qp*> rung{nullptr};
  IntrusiveList<Qp, &Qp::ready_link> ready;
  IntrusiveList<Qp, &Qp::answer_link> answers;
  TimerHeap<Qp, &Qp::timer> timers;
  TimerHeap<CoreCq, &CoreCq::timer> held_notifications;
  bool cq_failed = false;  // settle() has queue pairs to fail

  Qp* find(wire::Qpn qpn) const {
    Qp* qp = qps[qpn.index()].get();
    return qp != nullptr && qp->config.qpn == qpn ? qp : nullptr;
  }
  void drop(PacketDrop reason) { ++counters.drops[static_cast<size_t>(reason)]; }
  void reserve_events();

  // ---- completions and events -------------------------------------------------------------------
  // False: the CQ overran; its queue pairs fail at settle().
  bool complete(CompletionQueue* cq, const Completion& completion, bool solicited);
  void notify(CoreCq& cq);
  void release(CoreCq& cq);    // the notification that moderation holds, if it does
  void release_due(Time now);  // all whose time has come
  void raise(Qp& qp, uint32_t event);
  void tell_state(Qp& qp);
  void raise_srq_limit(SharedReceiveQueue::Impl& srq);
  // Takes the next receive of the QP's queue into qp.resp.receive. False: there is none.
  bool take_receive(Qp& qp, SharedReceiveQueue::Impl* srq);
  // Ends the receive under way. `bytes` is what the completion says.
  bool complete_receive(Qp& qp, Time now, const Completion& fields, bool solicited);
  // Ends the oldest send request. Its slot is the poster's again before the completion can be seen: who
  // polled one completion may post one request.
  void complete_head(Qp& qp, WcStatus status, VendorError reason, Time now);

  // ---- states -----------------------------------------------------------------------------------
  // The only door. Entering ERR and SQE flushes, entering RESET forgets.
  void set_state(Qp& qp, QpState state, StateReason reason, Time now);
  void flush_send(Qp& qp, Time now);
  void flush_receive(Qp& qp, Time now);
  // The queue pair failed: `event` (or none) is raised and it goes to ERR.
  static constexpr uint32_t kNoEvent = UINT32_MAX;
  void fail(Qp& qp, StateReason reason, uint32_t event, Time now);
  // End of every input: consequences that must not happen in the middle of one.
  void settle(Time now);

  // ---- lists and timers -------------------------------------------------------------------------
  void schedule(Qp& qp) { ready.push_back(qp); }
  void update_timer(Qp& qp) { timers.arm(qp, qp.earliest()); }
  void ring(Qp& qp);
  void take_rings(Time now);
  void leave_lists(Qp& qp);
};

// What a local gather or scatter came to.
enum class CopyResult : uint8_t { ok, bad_key, fault, too_long };

// Writes `bytes` at `offset` of the receive. Checks each key at the moment of the access, so that a region
// deregistered meanwhile is not touched.
CopyResult scatter(Core& core, uint32_t pd, const SgEntry* sges, uint32_t num_sge, uint64_t offset,
                   const std::byte* data, size_t bytes);

}  // namespace uroce::engine
