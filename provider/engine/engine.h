// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The transport protocol of one context (one process's data path): commands and bytes in, bytes and
// completions out.
//
// The engine has no socket, clock, thread, lock or random source. `now` never runs back. Everything except
// the members marked "any thread" is called by whoever holds the lane, one at a time; no call re-enters the
// engine. After each input the caller drains the outputs: poll_transmit() until it says there is no more,
// poll_event() until empty, then next_deadline(). Same inputs in the same order give the same outputs, byte
// for byte.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "provider/engine/attributes.h"
#include "provider/engine/completion_queue.h"
#include "provider/engine/memory_access.h"
#include "provider/engine/path.h"
#include "provider/engine/queue_pair.h"
#include "provider/engine/shared_receive_queue.h"
#include "provider/engine/work.h"

namespace uroce::engine {

// Why a packet was not taken, each with a counter.
enum class PacketDrop : uint8_t {
  parse_error,
  unknown_qp,
  wrong_service,  // opcode of another transport than the QP's
  wrong_state,    // QP not in RTR/RTS/SQD ...
  wrong_source,   // RC/UC: not from the connected peer's address
  bad_pkey,
  bad_qkey,
  ghost_acknowledge,  // response that matches nothing outstanding
  duplicate,          // duplicate request, answered or ignored as IBA 9.7.5.1.5 says
  out_of_sequence,
  bad_request,        // ended in a NAK
  no_receive,         // UD/UC: no receive posted
  receive_too_small,  // UD
  broken_message,     // UC: a part is missing
  multicast_not_member,
  kCount
};
const char* to_string(PacketDrop reason);

struct Counters {
  std::array<uint64_t, static_cast<size_t>(PacketDrop::kCount)> drops{};
  // Names of rxe's hw_counters where the meaning is the same.
  uint64_t sent_pkts = 0, rcvd_pkts = 0, duplicate_request = 0, out_of_seq_request = 0, rcvd_rnr_err = 0,
           send_rnr_err = 0, rcvd_seq_err = 0, ack_deferred = 0, retry_exceeded_err = 0,
           retry_rnr_exceeded_err = 0, completer_retry_err = 0, rdma_sends = 0, rdma_recvs = 0, cnp_sent = 0,
           cnp_received = 0, retransmitted_pkts = 0, timeouts = 0, memory_faults = 0;
};

struct EngineConfig {
  uint32_t slot = 1;
  int64_t minimum_ib_timeout_ns =
      100'000'000;                     // floor of the IB timeout (a process may be off the CPU for long)
  uint32_t start_window_packets = 64;  // per destination slot
  uint32_t start_window_bytes = 128 << 10;
  uint32_t burst_bytes = 32 << 10;  // at most this much back to back before the first acknowledgement
  uint32_t max_window_bytes = 1 << 20;
  uint32_t unreliable_bytes_per_us = 1000;  // of each UC or UD queue pair; 0: as fast as it goes
  uint32_t unreliable_burst_bytes = 64 << 10;
  PathMtu port_mtu = PathMtu::mtu_4096;  // limit of a datagram (UD)
  uint8_t max_rd_atomic = 128;           // READs and atomics in flight, either side; more is EINVAL at modify
};

// Asynchronous happenings. Numbers of `async` equal enum ibv_event_type.
struct Event {
  // qp_state: a queue pair changed its state by itself; nothing for the program. `async` is its state now.
  enum class Kind : uint8_t { completion, async_cq, async_qp, async_srq, qp_state } kind{};
  uint32_t async = 0;
  uint32_t id = 0;  // CQ id, QPN or SRQ number
  uint64_t user_handle = 0;
};

class Engine {
 public:
  Engine(const EngineConfig& config, MemoryAccess& memory);
  ~Engine();
  Engine(const Engine&) = delete;

  // ---- control: 0 or a positive errno; objects are owned by the engine and live until destroyed ----
  int create_cq(uint32_t id, uint32_t capacity, bool ignore_overrun, uint64_t user_handle,
                CompletionQueue*& out);
  // Event moderation: an event after `count` completions, or `period_us` after the first of them, whichever
  // comes first. A count of 0 stands for any number, a period of 0 for any time; both 0, or a count of 1:
  // off. What was held back fires.
  void moderate_cq(CompletionQueue* cq, uint16_t count, uint16_t period_us);
  int destroy_cq(CompletionQueue* cq);  // EBUSY while in use
  int create_srq(const SrqConfig& config, SharedReceiveQueue*& out);
  int modify_srq(Time now, SharedReceiveQueue* srq,
                 uint32_t limit);  // arms; already below: the event fires at once
  int destroy_srq(SharedReceiveQueue* srq);
  int create_qp(const QpConfig& config, QueuePair*& out);
  // All or nothing: EINVAL leaves every attribute as it was (table of IBA 11.2.5.2 / ibv_modify_qp(3)).
  // To RESET its completions that wait go too, so it needs the consumer locks of both CQs; so does
  // destroy_qp.
  int modify_qp(Time now, QueuePair* qp, const QpAttributes& attributes, uint32_t mask);
  void query_qp(const QueuePair* qp, QpAttributes& out, bool& sq_draining) const;
  int destroy_qp(Time now, QueuePair* qp);  // EBUSY while attached to a multicast group
  int register_mr(const MrConfig& config);
  int rereg_mr(uint32_t key, const MrConfig& config);
  int deregister_mr(uint32_t key);  // after it returns no access happens; EBUSY with bound windows
  int register_window(uint32_t rkey, uint32_t pd, bool type2);
  int deregister_window(uint32_t rkey);
  int attach_multicast(QueuePair* qp, const wire::Gid& group);  // twice is once
  int detach_multicast(QueuePair* qp, const wire::Gid& group);  // EINVAL when not attached
  // The netdev's MTU changed: the new limit of a datagram.
  void set_port_mtu(PathMtu mtu);
  // Everything to ERR with flushes; used at DEVICE_FATAL.
  void fail_all(Time now);

  // ---- data in ----------------------------------------------------------------------------------
  // `packet`: BTH .. pad, ICRC checked and cut off; valid during the call only.
  void on_packet(Time now, std::span<const std::byte> packet, const RxMeta& meta);
  // Send requests were posted, or receives in ERR, which are to be flushed (else nobody waits for a receive
  // here: requesters come again by themselves). Any thread, lock-free. The lane holder finds it at the next
  // take_rings().
  void ring(QueuePair* qp);
  bool has_rings() const;  // any thread
  // Takes posted work over. Called before poll_transmit().
  void take_rings(Time now);
  // Safe to call early or twice.
  void on_deadline(Time now);
  // Until then the acknowledgement of a QP that sends, too, waits for its next data to ride behind. For
  // whoever takes a packet that the program is about to answer; some 20 us.
  void hold_acknowledgements(Time until);

  // ---- out --------------------------------------------------------------------------------------
  // Fills `batch` (appends). True: there is more, call again with room. Data first, acknowledgements behind
  // it.
  bool poll_transmit(Time now, TxBatch& batch);
  bool poll_event(Event& out);
  std::optional<Time> next_deadline() const;

  // ---- look -------------------------------------------------------------------------------------
  const Counters& counters() const;
  QueuePair* find_qp(wire::Qpn qpn) const;
  std::string snapshot(const QueuePair* qp) const;  // prints for a person

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::engine
