// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Service resolution (IBA 12.11): which QP serves this id?
#include <cerrno>

#include "tools/uroced/cm/ib_cm_impl.h"

namespace uroce::cm {

Endpoint IbCm::Impl::resolve(Time now, const Route& to, const wire::CmSidrReq& request,
                             uint8_t response_timeout, uint8_t max_retries) {
  Connection* c = table_.create(to, State::sidr_req_sent);
  if (c == nullptr) {
    ++counters_.no_resources;
    return 0;
  }
  wire::CmSidrReq m = request;
  m.request_id = c->id;
  c->transaction = table_.new_transaction();
  c->full_wait_ns = cm_time_ns(response_timeout);
  c->retries = max_retries;
  send(*c, Sent::sidr_req, m, c->transaction);
  start_wait(*c, now);
  return c->id;
}

void IbCm::Impl::on(const Arrival& a, const wire::CmSidrReq& m) {
  if (Connection* c = table_.find_request(a.from, true, m.request_id)) {
    ++counters_.duplicates;
    if (c->sent == Sent::sidr_rep) send_again(*c);
    return;
  }
  Connection* c = table_.create_request(a.from, State::sidr_req_received, m.request_id);
  if (c == nullptr) {
    ++counters_.no_resources;
    return;
  }
  c->transaction = a.transaction;
  c->service_id = m.service_id;
  emit(*c, Event::Kind::sidr_request, m);
}

void IbCm::Impl::send_sidr_reply(Connection& c, wire::CmSidrRep answer) {
  answer.request_id = c.remote_id;
  answer.service_id = c.service_id;
  send(c, Sent::sidr_rep, answer, c.transaction);
}

int IbCm::Impl::answer_sidr(Endpoint endpoint, const wire::CmSidrRep& answer) {
  Connection* c = owned(endpoint);
  if (c == nullptr) return ENOENT;
  if (c->state != State::sidr_req_received) return EINVAL;
  send_sidr_reply(*c, answer);
  finish(*c);
  return 0;
}

void IbCm::Impl::on(const Arrival& a, const wire::CmSidrRep& m) {
  Connection* c = addressed(a, m.request_id);
  if (c == nullptr || c->state != State::sidr_req_sent) {
    ++counters_.unexpected;
    return;
  }
  emit(*c, Event::Kind::sidr_reply, m);
  finish(*c);
}

}  // namespace uroce::cm
