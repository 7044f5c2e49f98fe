// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The InfiniBand communication manager (IBA chapter 12): connections and service resolutions as state
// machines over MADs. Pure: MADs, calls and the time go in, MADs and events are polled out; no socket, clock
// or random source. One object serves all devices of the daemon. Not thread-safe.
//
// After every input, drain poll_transmit() and poll_event(), then ask next_deadline(). Calls answer 0 or a
// positive errno: EINVAL where the state does not allow it, ENOENT for an endpoint that is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "provider/engine/path.h"
#include "provider/wire/cm_message.h"

namespace uroce::cm {

using engine::Time;

// One end of a connection or of a service resolution: its local communication id. Never 0, not reused soon.
using Endpoint = uint32_t;

struct Route {
  uint32_t device = 0;  // whose QP1
  engine::Path path;
  bool operator==(const Route&) const = default;
};

enum class State : uint8_t {
  req_sent,
  req_received,
  mra_received,  // of the REQ: the peer takes its time
  rep_sent,
  rep_received,
  established,
  dreq_sent,
  timewait,  // released or not; ends with Event::timewait_exit
  sidr_req_sent,
  sidr_req_received,
  idle,  // over: only release() is left
};

struct Event {
  enum class Kind : uint8_t {
    request,       // CmReq. A new endpoint in req_received: answer with accept, reject or drop
    reply,         // CmRep. rep_received: answer with confirm or reject
    established,   // CmRtu. Passive side: the RTU has come, or establish() was called
    rejected,      // CmRej, before the connection was established here. idle from here on
    unreachable,   // REQ, REP or SIDR_REQ unanswered after all retries. idle
    disconnected,  // CmDreq, CmDrep or CmRej; timed_out: none of them. timewait from here on. Comes once, and
                   // may come without `established` (the RTU was lost) or before confirm()
    timewait_exit,  // idle
    sidr_request,   // CmSidrReq. A new endpoint in sidr_req_received: answer with answer_sidr or drop
    sidr_reply,     // CmSidrRep, whatever its status. idle
  };
  Endpoint endpoint = 0;
  Kind kind{};
  bool timed_out = false;  // disconnected: no answer to the DREQ
  Route route;             // to the peer; of request and sidr_request: back to the sender
  wire::CmMessage message;
};

struct Outgoing {
  Route route;
  wire::Mad mad;  // to QP 1 with kGsiQkey
};

class IbCm {
 public:
  struct Limits {
    size_t endpoints = 65536;            // REQs beyond are rejected (no_resources)
    size_t half_open_per_source = 4096;  // requests of one peer that nobody has answered
    size_t half_open = 49152;            // requests of all peers; the rest is kept for connect and resolve
  };
  struct Counters {  // every drop has a name
    uint64_t received = 0, sent = 0, retransmitted = 0;
    uint64_t malformed = 0;  // parse_cm said no
    uint64_t duplicates = 0;
    uint64_t unexpected = 0;  // no endpoint, or not in this state; some are answered with a REJ
    uint64_t stale = 0;       // REQs over a connection that the peer has forgotten
    uint64_t no_resources = 0;
  };

  // `seed` makes communication and transaction ids hard to guess and unlike those of an earlier run.
  explicit IbCm(uint64_t seed);
  IbCm(uint64_t seed, const Limits& limits);
  ~IbCm();

  // ---- in
  void on_mad(Time now, const Route& from, std::span<const std::byte> mad);
  void on_deadline(Time now);  // safe to call early or twice

  // Active side. local_id of the message is set here, and the GIDs of the primary path where they are zero;
  // max_cm_retries and the timeouts are used as given. Returns 0 as endpoint when there is no room.
  Endpoint connect(Time now, const Route& to, const wire::CmReq& request);
  // rep_received -> established; sends the RTU.
  int confirm(Time now, Endpoint endpoint, std::span<const uint8_t> private_data);

  // Passive side: req_received -> rep_sent. Ids are set here; XRC: local_qpn goes into local_eecn (and comes
  // out of it in the event `reply`).
  int accept(Time now, Endpoint endpoint, const wire::CmRep& reply);
  // The consumer has seen the connection work before the RTU came (IBA 12.9.7.2): rep_sent -> established.
  int establish(Time now, Endpoint endpoint);
  // req_received, rep_received and the states that wait for an answer.
  int reject(Time now, Endpoint endpoint, wire::CmRejectReason reason, std::span<const uint8_t> info,
             std::span<const uint8_t> private_data);

  // established -> dreq_sent. A DREQ of the peer is answered at once, without being asked.
  int disconnect(Time now, Endpoint endpoint, std::span<const uint8_t> private_data);

  // Service resolution. Of the answer, request_id and service_id are set here; the endpoint is idle then.
  Endpoint resolve(Time now, const Route& to, const wire::CmSidrReq& request, uint8_t response_timeout,
                   uint8_t max_retries);
  int answer_sidr(Time now, Endpoint endpoint, const wire::CmSidrRep& answer);

  // The owner wants to hear no more. What the peer is owed is sent: REJ (timeout) for a REQ under way, REJ
  // (consumer defined) for a REQ or a REP received, DREQ for a connection and for a REP sent (the peer may
  // have taken it already); the state machine ends by itself. A SIDR_REQ that was not answered is answered
  // with `rejected`.
  void release(Time now, Endpoint endpoint);
  // The same in any state, but nothing is sent: a request that is ignored (the peer will repeat it, and it is
  // a new one).
  void drop(Endpoint endpoint);
  // The device is gone: its endpoints end without a word and without events.
  void forget_device(uint32_t device);

  // ---- out
  std::optional<Outgoing> poll_transmit();
  std::optional<Event> poll_event();
  std::optional<Time> next_deadline() const;

  // nullopt: it is gone.
  std::optional<State> state(Endpoint endpoint) const;
  size_t live() const;
  const Counters& counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::cm
