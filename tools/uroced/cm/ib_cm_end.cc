// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// How connections end: REJ, DREQ and DREP, timewait, and an owner who leaves.
#include <cerrno>

#include "provider/wire/byte_order.h"
#include "tools/uroced/cm/ib_cm_impl.h"

namespace uroce::cm {

using wire::CmMessageKind;
using wire::CmRejectReason;

void IbCm::Impl::finish(Connection& c) {
  table_.move(c, State::idle);
  if (!c.owned) table_.erase(c);
}

// ---- REJ

void IbCm::Impl::send_reject(Connection& c, CmRejectReason reason, std::span<const uint8_t> info,
                             std::span<const uint8_t> private_data) {
  wire::CmRej m;
  m.local_id = c.id;
  m.remote_id = c.remote_id;
  m.of = c.state == State::req_received   ? CmMessageKind::req
         : c.state == State::rep_received ? CmMessageKind::rep
                                          : CmMessageKind::other;
  m.reason = reason;
  m.info_length = static_cast<uint8_t>(info.size());
  std::copy(info.begin(), info.end(), m.info.begin());
  m.private_data.put(private_data);
  send(c, Sent::rej, m, c.transaction);
}

// Linux finds the request that timed out by the CA GUID in the additional information (IBA 12.6.7.2).
void IbCm::Impl::send_reject_timeout(Connection& c) {
  std::array<std::byte, 8> guid;
  wire::store_be64(guid.data(), c.local_ca_guid);
  std::array<uint8_t, 8> info;
  std::memcpy(info.data(), guid.data(), guid.size());
  send_reject(c, CmRejectReason::timeout, info, {});
}

int IbCm::Impl::reject(Endpoint endpoint, CmRejectReason reason, std::span<const uint8_t> info,
                       std::span<const uint8_t> private_data) {
  Connection* c = owned(endpoint);
  if (c == nullptr) return ENOENT;
  if (info.size() > wire::CmRej{}.info.size() ||
      private_data.size() > decltype(wire::CmRej::private_data)::kRoom)
    return EINVAL;
  switch (c->state) {
    case State::req_sent:
    case State::mra_received:
    case State::req_received:
    case State::rep_sent:
    case State::rep_received:
      send_reject(*c, reason, info, private_data);
      finish(*c);
      return 0;
    default: return EINVAL;
  }
}

void IbCm::Impl::on(const Arrival& a, const wire::CmRej& m) {
  // A REQ that is given up has no id of ours yet.
  Connection* c =
      m.remote_id == 0 ? table_.find_request(a.from, false, m.local_id) : addressed(a, m.remote_id);
  if (c == nullptr) {
    ++counters_.unexpected;
    return;
  }
  const bool request_under_way = c->state == State::req_sent || c->state == State::mra_received;
  const bool matches = request_under_way || (m.of != CmMessageKind::req && c->remote_id == m.local_id);
  if (!matches) {
    ++counters_.unexpected;
    return;
  }
  switch (c->state) {
    case State::req_sent:
    case State::mra_received:
    case State::req_received:
    case State::rep_sent:
    case State::rep_received: emit(*c, Event::Kind::rejected, m); return finish(*c);
    case State::established:
    case State::dreq_sent: return end_connection(*c, a.now, m);
    default: ++counters_.duplicates;
  }
}

// ---- DREQ and DREP

void IbCm::Impl::start_disconnect(Connection& c, Time now, std::span<const uint8_t> private_data) {
  wire::CmDreq m{c.id, c.remote_id, c.remote_qpn, {}};
  m.private_data.put(private_data);
  table_.move(c, State::dreq_sent);
  send(c, Sent::dreq, m, table_.new_transaction());
  start_wait(c, now);
  if (!c.owned) c.waits_left = 0;
}

int IbCm::Impl::disconnect(Time now, Endpoint endpoint, std::span<const uint8_t> private_data) {
  Connection* c = owned(endpoint);
  if (c == nullptr) return ENOENT;
  if (c->state != State::established || private_data.size() > decltype(wire::CmDreq::private_data)::kRoom)
    return EINVAL;
  start_disconnect(*c, now, private_data);
  return 0;
}

void IbCm::Impl::end_connection(Connection& c, Time now, const wire::CmMessage& why, bool timed_out) {
  emit(c, Event::Kind::disconnected, why, timed_out);
  table_.move(c, State::timewait);
  c.sent = Sent::nothing;
  table_.set_timer(c, now + c.timewait_ns);
}

void IbCm::Impl::on(const Arrival& a, const wire::CmDreq& m) {
  Connection* c = addressed(a, m.remote_id);
  if (c == nullptr && table_.find(m.remote_id) != nullptr) {
    ++counters_.unexpected;  // an id that belongs to another peer
    return;
  }
  const bool known = c != nullptr && c->remote_known && c->remote_id == m.local_id;
  if (known && m.remote_qpn != c->local_qpn) {
    ++counters_.unexpected;
    return;
  }
  // IBA 12.9.8.3: answered although the connection is not known, for its DREP may have been lost.
  send(a.from, wire::CmDrep{m.remote_id, m.local_id, {}}, a.transaction);
  if (!known) {
    ++counters_.unexpected;
    return;
  }
  switch (c->state) {
    case State::rep_sent:      // the RTU was lost
    case State::rep_received:  // it saw data before our RTU
    case State::established:
    case State::dreq_sent:  // both at once: each is the answer to the other
      return end_connection(*c, a.now, m);
    default: ++counters_.duplicates;
  }
}

void IbCm::Impl::on(const Arrival& a, const wire::CmDrep& m) {
  Connection* c = addressed(a, m.remote_id);
  if (c == nullptr || c->remote_id != m.local_id || c->state != State::dreq_sent) {
    ++counters_.unexpected;
    return;
  }
  end_connection(*c, a.now, m);
}

void IbCm::Impl::on_timewait_end(Connection& c) {
  emit(c, Event::Kind::timewait_exit, {});
  finish(c);
}

// ---- the owner leaves

void IbCm::Impl::release(Time now, Endpoint endpoint) {
  Connection* c = owned(endpoint);
  if (c == nullptr) return;
  switch (c->state) {
    case State::req_sent:
    case State::mra_received: send_reject_timeout(*c); break;
    case State::req_received:
    case State::rep_received: send_reject(*c, CmRejectReason::consumer_defined, {}, {}); break;
    case State::rep_sent:
    case State::established: c->owned = false; return start_disconnect(*c, now, {});
    case State::dreq_sent:
      c->owned = false;
      c->waits_left = 0;  // nobody waits for it: this one is enough
      return;
    case State::timewait: c->owned = false; return;
    case State::sidr_req_received: {
      wire::CmSidrRep answer;
      answer.status = wire::SidrStatus::rejected;
      send_sidr_reply(*c, answer);
      break;
    }
    case State::sidr_req_sent:
    case State::idle: break;
  }
  table_.erase(*c);
}

}  // namespace uroce::cm
