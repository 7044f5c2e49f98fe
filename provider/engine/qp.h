// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A queue pair as the engine sees it. Everything but the rings, `published_state` and the doorbell is touched
// under the lane only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "provider/engine/attributes.h"
#include "provider/engine/intrusive_list.h"
#include "provider/engine/path.h"
#include "provider/engine/queue_pair.h"
#include "provider/engine/shared_receive_queue.h"
#include "provider/engine/timer_heap.h"
#include "provider/engine/vendor_error.h"
#include "provider/engine/work_queue.h"
#include "provider/wire/packet.h"

namespace uroce::engine {

class Destination;
using Qp = QueuePair::Impl;

// Why a queue pair changed its state; shown by snapshot().
enum class StateReason : uint8_t {
  created,
  modified,          // the user's modify
  local_error,       // a send request could not be carried out here
  peer_refused,      // fatal NAK
  no_answer,         // retries used up
  refused_peer,      // we sent a fatal NAK
  receive_error,     // a receive could not be filled
  completion_queue,  // its CQ overran
  device             // fail_all
};
const char* to_string(StateReason reason);

// The receive that the message under way lands in: a copy, so that its slot in the (maybe shared) queue is
// free at once.
struct TakenReceive {
  bool taken = false;
  uint64_t wr_id = 0;
  uint32_t num_sge = 0;
  uint64_t bytes = 0;  // room
  uint32_t pd = 0;     // its keys are checked against the queue's domain
  uint32_t srq_number = 0;
  CompletionQueue* cq = nullptr;
  std::array<SgEntry, kMaxSge> sges;
};

// Requester: what leaves the send queue. WQEs are named by ring indices that only grow.
//
//   head <= cursor <= begun <= ring tail
//   una  <= send_psn <= next_psn
//
// head: oldest not completed; cursor: whose packets are being sent, send_psn the next of them; begun: first
// without PSNs; una: oldest PSN without an answer. After a loss cursor and send_psn go back to head and una;
// an answer beyond them moves them forward.
struct RequesterState {
  uint32_t head = 0;
  uint32_t cursor = 0;
  uint32_t begun = 0;
  wire::Psn una;
  wire::Psn send_psn;
  wire::Psn next_psn;

  uint64_t charged = 0;          // what this QP holds of its destination's window
  uint32_t reads_in_flight = 0;  // READ requests and atomics sent in this pass and not answered
  uint32_t unasked = 0;          // packets since the last one that asked for an acknowledgement

  // ---- loss -------------------------------------------------------------------------------------
  enum class Probe : uint8_t {
    none,
    send,
    wait
  } probe = Probe::none;   // after a timeout one packet asks what arrived
  uint8_t backoff = 0;     // of the retransmission timer
  bool restarted = false;  // since una moved
  Time restarted_at;
  Time last_progress;  // since then the IB timeout counts

  // ---- round trip time --------------------------------------------------------------------------
  bool timing = false;
  wire::Psn timed_psn;
  Time timed_at;

  // ---- pace of UC and UD ------------------------------------------------------------------------
  int64_t pace_tokens = 0;  // bytes
  Time pace_at{INT64_MIN / 2};

  // ---- receiver not ready -----------------------------------------------------------------------
  bool rnr_waiting = false;
  uint8_t rnr_retries = 0;

  // ---- an error of our own, waiting for the WQEs before it --------------------------------------
  bool failing = false;
  uint32_t failing_index = 0;
  WcStatus failing_status = WcStatus::success;
  VendorError failing_reason = VendorError::none;

  // ---- where in the gather list the last packet ended -------------------------------------------
  uint32_t gather_index = 0;   // of the WQE this belongs to
  uint32_t gather_offset = 0;  // bytes of the message
  uint32_t gather_sge = 0;
  uint32_t gather_in_sge = 0;
  bool gather_valid = false;
};

// One READ, atomic, FLUSH or atomic write that was accepted: how far it is answered, and what a duplicate
// gets (IBA 9.7.5.1.5).
struct ResponderResource {
  enum class Kind : uint8_t { none, read, atomic, acknowledge } kind = Kind::none;
  bool active = false;    // there is something to send
  bool answered = false;  // whole, at least once
  wire::Psn first;        // of the request
  uint32_t packets = 0;
  uint32_t msn = 0;
  // READ: what the (re)request asked for last
  wire::Psn send_psn;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t pd = 0;    // in which the key is looked for
  uint32_t left = 0;  // bytes
  bool paced = false;
  bool begin = false;     // the next packet is the first of this answer
  uint64_t original = 0;  // atomic
};

struct ResponderState {
  wire::Psn expected;
  uint32_t msn = 0;
  enum class Message : uint8_t { none, send, write } message = Message::none;
  bool skipping = false;     // UC: until the next message begins
  bool established = false;  // COMM_EST was raised
  uint32_t xrc_pd = 0;       // XRC target: domain of the SRQ that the packet names
  uint64_t received = 0;     // bytes of the message
  uint64_t write_va = 0;     // of the next WRITE packet
  uint32_t write_rkey = 0;
  uint32_t write_left = 0;
  TakenReceive receive;

  // ---- what is owed to the requester ------------------------------------------------------------
  enum class Due : uint8_t { none, acknowledge, nak, rnr_nak } due = Due::none;
  bool due_now = false;  // else at ack_at
  uint8_t nak_value = 0;
  wire::Psn nak_psn;
  wire::Psn plain_psn;          // last PSN that a plain acknowledgement may name
  bool unacknowledged = false;  // requests executed since the last acknowledgement
  bool nak_sent = false;        // for this gap; also while the requester waits after an RNR NAK
  bool rnr_sent = false;
  bool receive_failed = false;  // its completion told the program
  bool refused = false;         // a fatal NAK was sent; repeated when the peer repeats the request
  wire::Psn gap_psn;            // newest packet seen behind the gap
  Time gap_nak_at{INT64_MIN / 2};
  Time cnp_at{INT64_MIN / 2};  // last congestion notification sent
  bool cnp_due = false;
  bool owes() const { return cnp_due || (due != Due::none && due_now); }

  // ---- READ and atomic resources: max_dest_rd_atomic in a ring of the next power of two
  // ----------------------------------
  std::unique_ptr<ResponderResource[]> resources;
  uint32_t resource_count = 0;
  uint32_t resource_slots = 0;
  uint32_t newest = 0;     // resources taken so far; slot = number modulo the ring
  uint32_t answering = 0;  // number of the oldest that may have something to send
  uint32_t active = 0;
  // Pacing of long answers
  int64_t pace_tokens = 0;
  Time pace_at{INT64_MIN / 2};
};

struct QueuePair::Impl final : QueuePair {
  Impl(const QpConfig& config, const std::atomic<uint32_t>& port_mtu);

  QpConfig config;
  QpAttributes attributes;
  std::atomic<uint8_t> published_state{0};
  const std::atomic<uint32_t>& port_mtu_bytes;
  uint32_t mtu = 1024;
  wire::Service service;
  bool sqd_event = false;  // en_sqd_async_notify
  bool sq_drained = true;
  bool bound_windows = false;
  uint32_t multicast_groups = 0;

  SendQueue send_queue;
  std::optional<ReceiveQueue> receive_queue;  // none with an SRQ and on XRC

  RequesterState req;
  ResponderState resp;
  Destination* destination = nullptr;

  // ---- lists and timers -------------------------------------------------------------------------
  std::atomic<bool> rung{false};
  Impl* next_rung = nullptr;
  ListLink<Impl> ready_link;   // has packets to send
  ListLink<Impl> answer_link;  // owes an acknowledgement
  ListLink<Impl> window_link;  // waits for its destination
  TimerSlot timer;
  Time retransmit_at = kNever;
  Time rnr_at = kNever;
  Time ack_at = kNever;
  Time pace_until = kNever;

  uint32_t events_pending = 0;  // bits by event number
  StateReason reason{};         // of the last change of state

  QpState current() const { return static_cast<QpState>(published_state.load(std::memory_order_relaxed)); }
  bool reliable() const { return config.type != QpType::uc && config.type != QpType::ud; }
  // Whose memory a peer's request may reach. An XRC target has no domain of its own: the SRQ's counts.
  uint32_t target_domain() const { return config.type == QpType::xrc_target ? resp.xrc_pd : config.pd; }
  bool has_requester() const { return config.type != QpType::xrc_target; }
  bool has_responder() const { return config.type != QpType::xrc_initiator; }
  Time earliest() const {
    Time t = retransmit_at < rnr_at ? retransmit_at : rnr_at;
    if (ack_at < t) t = ack_at;
    return pace_until < t ? pace_until : t;
  }
};

struct SharedReceiveQueue::Impl final : SharedReceiveQueue {
  explicit Impl(const SrqConfig& config);

  SrqConfig config;
  ReceiveQueue queue;
  std::atomic<uint32_t> limit{0};
  uint32_t users = 0;
  bool limit_pending = false;  // its event waits to be taken
};

}  // namespace uroce::engine
