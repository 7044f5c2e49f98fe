// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The side that is connected to (IBA 12.9.7.2): REQ, then REP or REJ, then RTU.
#include <cerrno>
#include <utility>

#include "tools/uroced/cm/ib_cm_impl.h"

namespace uroce::cm {
namespace {

constexpr uint8_t kXrc = 1;  // extended transport

}  // namespace

void IbCm::Impl::refuse(const Arrival& a, const wire::CmReq& m, wire::CmRejectReason reason,
                        std::span<const uint8_t> info) {
  wire::CmRej rej;
  rej.remote_id = m.local_id;
  rej.of = wire::CmMessageKind::req;
  rej.reason = reason;
  rej.info_length = static_cast<uint8_t>(info.size());
  std::copy(info.begin(), info.end(), rej.info.begin());
  send(a.from, rej, a.transaction);
}

void IbCm::Impl::on(const Arrival& a, const wire::CmReq& m) {
  using wire::CmRejectReason;
  if (Connection* c = table_.find_request(a.from, false, m.local_id)) return on_repeated_request(a, *c, m);
  const bool extended = m.transport == wire::CmTransport::extended;
  if (m.transport == wire::CmTransport::rd || (extended && m.extended_transport != kXrc)) {
    ++counters_.unexpected;
    return refuse(a, m, CmRejectReason::invalid_transport_type);
  }
  if (m.primary.local_gid != a.from.path.destination) {  // or our packets would go where the sender likes
    ++counters_.unexpected;
    return refuse(a, m, CmRejectReason::invalid_gid, a.from.path.destination.raw);
  }
  // A QP of the peer that has a connection here: the peer has forgotten it (12.9.8.3.1). In timewait it has
  // not, and may use the QP again at once.
  Connection* holder = table_.find_remote_qp(a.from, m.local_qpn, m.local_ca_guid);
  if (holder != nullptr && (holder->state == State::established || holder->state == State::dreq_sent)) {
    ++counters_.stale;
    refuse(a, m, CmRejectReason::stale_connection);
    if (holder->state == State::established) start_disconnect(*holder, a.now, {});
    return;
  }
  Connection* c = table_.create_request(a.from, State::req_received, m.local_id);
  if (c == nullptr) {
    ++counters_.no_resources;
    return refuse(a, m, CmRejectReason::no_resources);
  }
  c->transaction = a.transaction;
  c->remote_qpn = m.local_qpn;
  c->remote_ca_guid = m.local_ca_guid;
  c->extended = extended;
  set_times(*c, m, m.local_response_timeout);
  emit(*c, Event::Kind::request, m);
}

void IbCm::Impl::on_repeated_request(const Arrival& a, Connection& c, const wire::CmReq& m) {
  ++counters_.duplicates;
  switch (c.state) {
    case State::req_received: {
      const wire::CmMra mra{c.id, c.remote_id, wire::CmMessageKind::req, kServiceTimeout, {}};
      return send(c.route, mra, c.transaction);
    }
    case State::rep_sent:
    case State::established: return send_again(c);  // the REP
    case State::dreq_sent:
    case State::timewait: return refuse(a, m, wire::CmRejectReason::stale_connection);
    default:
      if (c.sent == Sent::rej) send_again(c);
  }
}

int IbCm::Impl::accept(Time now, Endpoint endpoint, const wire::CmRep& reply) {
  Connection* c = owned(endpoint);
  if (c == nullptr) return ENOENT;
  if (c->state != State::req_received) return EINVAL;
  wire::CmRep m = reply;
  m.local_id = c->id;
  m.remote_id = c->remote_id;
  c->local_qpn = m.local_qpn & 0xffffff;
  if (c->extended) {
    m.local_eecn = std::exchange(m.local_qpn, 0);
    m.srq = true;
  }
  c->local_ca_guid = m.local_ca_guid;
  table_.move(*c, State::rep_sent);
  send(*c, Sent::rep, m, c->transaction);
  start_wait(*c, now);
  Connection* stale = table_.claim_remote_qp(*c);  // of two requests for one QP the later one counts
  if (stale != nullptr && stale->state == State::established) {
    ++counters_.stale;
    start_disconnect(*stale, now, {});
  }
  return 0;
}

int IbCm::Impl::establish(Endpoint endpoint) {
  Connection* c = owned(endpoint);
  if (c == nullptr) return ENOENT;
  if (c->state != State::rep_sent) return EINVAL;
  table_.stop_timer(*c);
  table_.move(*c, State::established);
  emit(*c, Event::Kind::established, wire::CmRtu{c->remote_id, c->id, {}});
  return 0;
}

void IbCm::Impl::on(const Arrival& a, const wire::CmRtu& m) {
  Connection* c = addressed(a, m.remote_id);
  const bool known = c != nullptr && c->passive && c->remote_id == m.local_id;
  if (known && c->state == State::rep_sent) {
    table_.stop_timer(*c);
    table_.move(*c, State::established);
    return emit(*c, Event::Kind::established, m);
  }
  if (known && (c->state == State::established || c->state == State::dreq_sent)) {
    ++counters_.duplicates;
    return;
  }
  ++counters_.unexpected;
  if (known && c->sent == Sent::rej) return send_again(*c);
  if (!known && table_.find(m.remote_id) != nullptr) return;
  wire::CmRej rej;  // the peer believes in a connection that is over here: it would never hear of it
  rej.local_id = m.remote_id;
  rej.remote_id = m.local_id;
  rej.of = wire::CmMessageKind::other;
  rej.reason = wire::CmRejectReason::invalid_comm_id;
  send(a.from, rej, a.transaction);
}

}  // namespace uroce::cm
