// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The side that connects (IBA 12.9.7.1): REQ, then REP or MRA, then RTU.
#include <cerrno>

#include "tools/uroced/cm/ib_cm_impl.h"

namespace uroce::cm {
Endpoint IbCm::Impl::connect(Time now, const Route& to, const wire::CmReq& request) {
  Connection* c = table_.create(to, State::req_sent);
  if (c == nullptr) {
    ++counters_.no_resources;
    return 0;
  }
  wire::CmReq m = request;
  m.local_id = c->id;
  if (m.primary.local_gid.is_zero()) m.primary.local_gid = to.path.source;
  if (m.primary.remote_gid.is_zero()) m.primary.remote_gid = to.path.destination;
  c->transaction = table_.new_transaction();
  c->local_qpn = m.local_qpn & 0xffffff;
  c->local_ca_guid = m.local_ca_guid;
  c->extended = m.transport == wire::CmTransport::extended;
  set_times(*c, m, m.remote_response_timeout);
  send(*c, Sent::req, m, c->transaction);
  start_wait(*c, now);
  return c->id;
}

void IbCm::Impl::on(const Arrival& a, const wire::CmRep& m) {
  Connection* c = addressed(a, m.remote_id);
  if (c != nullptr && c->remote_known && c->remote_id == m.local_id && !c->passive)
    return on_repeated_reply(a, *c, m);
  if (c == nullptr || (c->state != State::req_sent && c->state != State::mra_received)) {
    ++counters_.unexpected;
    const bool others = table_.find(m.remote_id) != nullptr && c == nullptr;
    if (others) return;  // an id that belongs to another peer
    wire::CmRej rej;     // IBA 12.9.8.3: nobody here waits for it
    rej.local_id = m.remote_id;
    rej.remote_id = m.local_id;
    rej.of = wire::CmMessageKind::rep;
    rej.reason = wire::CmRejectReason::invalid_comm_id;
    return send(a.from, rej, a.transaction);
  }
  c->remote_id = m.local_id;
  c->remote_known = true;
  wire::CmRep reply = m;
  if (c->extended) reply.local_qpn = m.local_eecn;
  c->remote_qpn = reply.local_qpn;
  c->remote_ca_guid = m.local_ca_guid;
  add_ack_delay(*c, m.target_ack_delay);
  table_.stop_timer(*c);
  table_.move(*c, State::rep_received);
  // The peer says that its QP is ours now: an older connection to it is dead (12.9.8.3.1).
  Connection* stale = table_.claim_remote_qp(*c);
  emit(*c, Event::Kind::reply, reply);
  if (stale != nullptr && stale->state == State::established) {
    ++counters_.stale;
    start_disconnect(*stale, a.now, {});
  }
}

void IbCm::Impl::on_repeated_reply(const Arrival& a, Connection& c, const wire::CmRep& m) {
  ++counters_.duplicates;
  switch (c.state) {
    case State::rep_received: {
      const wire::CmMra mra{c.id, c.remote_id, wire::CmMessageKind::rep, kServiceTimeout, {}};
      return send(c.route, mra, c.transaction);
    }
    case State::established: return send_again(c);  // the RTU
    case State::timewait:
    case State::idle: {  // it missed the end
      wire::CmRej rej;
      rej.local_id = c.id;
      rej.remote_id = m.local_id;
      rej.of = wire::CmMessageKind::rep;
      rej.reason = wire::CmRejectReason::invalid_comm_id;
      return send(a.from, rej, a.transaction);
    }
    default: return;  // dreq_sent: the DREQ answers it
  }
}

int IbCm::Impl::confirm(Endpoint endpoint, std::span<const uint8_t> private_data) {
  Connection* c = owned(endpoint);
  if (c == nullptr) return ENOENT;
  wire::CmRtu m{c->id, c->remote_id, {}};
  if (c->state != State::rep_received || !m.private_data.put(private_data)) return EINVAL;
  send(*c, Sent::rtu, m, c->transaction);
  table_.move(*c, State::established);
  return 0;
}

void IbCm::Impl::on(const Arrival& a, const wire::CmMra& m) {
  Connection* c = addressed(a, m.remote_id);
  const bool to_request = m.of == wire::CmMessageKind::req;
  if (c != nullptr && to_request && (c->state == State::req_sent || c->state == State::mra_received)) {
    table_.move(*c, State::mra_received);
    return extend_wait(*c, a.now, m.service_timeout);
  }
  if (c != nullptr && m.of == wire::CmMessageKind::rep && c->state == State::rep_sent &&
      c->remote_id == m.local_id)
    return extend_wait(*c, a.now, m.service_timeout);
  ++counters_.unexpected;
}

}  // namespace uroce::cm
