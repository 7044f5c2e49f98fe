// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The inside of IbCm, one file for each part of a connection's life:
//   ib_cm.cc             the way in and out: which message, whose deadline
//   ib_cm_active.cc      REQ sent, REP and MRA received, RTU sent
//   ib_cm_passive.cc     REQ received, REP sent, RTU received
//   ib_cm_end.cc         REJ, DREQ, DREP, timewait, release
//   ib_cm_sidr.cc        service resolution
//   ib_cm_retransmit.cc  waiting for answers
//   ib_cm_table.cc       the endpoints and how they are found
#pragma once

#include <deque>

#include "tools/uroced/cm/ib_cm.h"
#include "tools/uroced/cm/ib_cm_table.h"

namespace uroce::cm {

inline constexpr uint8_t kServiceTimeout = 24;  // of the MRAs that we send: 69 s, as Linux says it

class IbCm::Impl {
 public:
  Impl(uint64_t seed, const Limits& limits) : table_(seed, limits) {}

  void on_mad(Time now, const Route& from, std::span<const std::byte> mad);
  void on_deadline(Time now);

  Endpoint connect(Time now, const Route& to, const wire::CmReq& request);
  int confirm(Endpoint endpoint, std::span<const uint8_t> private_data);
  int accept(Time now, Endpoint endpoint, const wire::CmRep& reply);
  int establish(Endpoint endpoint);
  int reject(Endpoint endpoint, wire::CmRejectReason reason, std::span<const uint8_t> info,
             std::span<const uint8_t> private_data);
  int disconnect(Time now, Endpoint endpoint, std::span<const uint8_t> private_data);
  Endpoint resolve(Time now, const Route& to, const wire::CmSidrReq& request, uint8_t response_timeout,
                   uint8_t max_retries);
  int answer_sidr(Endpoint endpoint, const wire::CmSidrRep& answer);
  void release(Time now, Endpoint endpoint);
  void drop(Endpoint endpoint);
  void forget_device(uint32_t device);

  std::optional<Outgoing> poll_transmit();
  std::optional<Event> poll_event();
  const EndpointTable& table() const { return table_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Arrival {  // of one MAD
    Time now;
    const Route& from;
    uint64_t transaction;
  };

  // Messages of a peer, each in the file that it belongs to.
  void on(const Arrival& a, const wire::CmReq& m);
  void on(const Arrival& a, const wire::CmMra& m);
  void on(const Arrival& a, const wire::CmRej& m);
  void on(const Arrival& a, const wire::CmRep& m);
  void on(const Arrival& a, const wire::CmRtu& m);
  void on(const Arrival& a, const wire::CmDreq& m);
  void on(const Arrival& a, const wire::CmDrep& m);
  void on(const Arrival& a, const wire::CmSidrReq& m);
  void on(const Arrival& a, const wire::CmSidrRep& m);

  // ---- ib_cm.cc
  // The endpoint that a message of this peer names. nullptr: there is none, or it talks to somebody else.
  Connection* addressed(const Arrival& a, uint32_t id) const;
  // The one that a call names; nullptr after release().
  Connection* owned(Endpoint endpoint) const;
  void emit(const Connection& c, Event::Kind kind, const wire::CmMessage& message, bool timed_out = false);
  void send(const Route& route, const wire::CmMessage& message, uint64_t transaction);
  // The same, and kept to be sent again.
  void send(Connection& c, Sent kind, const wire::CmMessage& message, uint64_t transaction);
  void send_again(Connection& c);

  // ---- ib_cm_active.cc
  void on_repeated_reply(const Arrival& a, Connection& c, const wire::CmRep& m);

  // ---- ib_cm_passive.cc
  void on_repeated_request(const Arrival& a, Connection& c, const wire::CmReq& m);
  void refuse(const Arrival& a, const wire::CmReq& m, wire::CmRejectReason reason,
              std::span<const uint8_t> info = {});

  // ---- ib_cm_end.cc
  // `disconnected`, then timewait.
  void end_connection(Connection& c, Time now, const wire::CmMessage& why, bool timed_out = false);
  void start_disconnect(Connection& c, Time now, std::span<const uint8_t> private_data);
  void send_reject(Connection& c, wire::CmRejectReason reason, std::span<const uint8_t> info,
                   std::span<const uint8_t> private_data);
  void send_reject_timeout(Connection& c);
  void on_timewait_end(Connection& c);
  // idle, or gone when nobody owns it; `c` may not be used any more.
  void finish(Connection& c);

  // ---- ib_cm_sidr.cc
  void send_sidr_reply(Connection& c, wire::CmSidrRep answer);

  // ---- ib_cm_retransmit.cc
  void start_wait(Connection& c, Time now);
  void extend_wait(Connection& c, Time now, uint8_t service_timeout);
  void on_wait(Connection& c, Time now);
  void give_up(Connection& c, Time now);

  EndpointTable table_;
  Counters counters_;
  std::deque<Outgoing> outgoing_;
  std::deque<Event> events_;
};

// 4.096 us * 2^exponent, as the 5-bit fields of IBA say it. What a peer asks for is believed up to 69 s: it
// would hold our memory for hours.
int64_t cm_time_ns(uint8_t exponent);
// The times of a connection, from the fields of its REQ.
void set_times(Connection& c, const wire::CmReq& request, uint8_t response_timeout);
// When its remote side delays acknowledgements (REP): longer in timewait.
void add_ack_delay(Connection& c, uint8_t target_ack_delay);

}  // namespace uroce::cm
