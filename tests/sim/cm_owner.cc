// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/sim/cm_owner.h"

#include <algorithm>

namespace uroce::sim {

using cm::Endpoint;
using cm::Event;
using cm::State;
using engine::Time;
using Kind = cm::Event::Kind;

namespace {

constexpr int64_t kMs = 1'000'000;

// States of the communication manager that a phase may stand for.
bool agrees(CmPhase phase, State state) {
  switch (phase) {
    case CmPhase::connecting: return state == State::req_sent || state == State::mra_received;
    case CmPhase::replied: return state == State::rep_received;
    case CmPhase::requested: return state == State::req_received;
    case CmPhase::accepted: return state == State::rep_sent;
    case CmPhase::established: return state == State::established || state == State::dreq_sent;
    case CmPhase::disconnected: return state == State::timewait;
    case CmPhase::resolving: return state == State::sidr_req_sent;
    case CmPhase::asked: return state == State::sidr_req_received;
    case CmPhase::over: return state == State::idle;
  }
  return false;
}

}  // namespace

void CmOwner::fail(const char* what, Endpoint endpoint) {
  if (!wrong_.empty()) return;
  wrong_ = "host " + std::to_string(number_) + ", endpoint " + std::to_string(endpoint) + ": " + what;
}

uint32_t CmOwner::new_qpn() {
  if (qpns_ != 0 && random_.chance(0.03))
    return static_cast<uint32_t>(random_.between(1, qpns_));  // one used before
  return ++qpns_;
}

uint8_t CmOwner::timeout() {
  return static_cast<uint8_t>(patient_ ? 21 : random_.between(10, 21));
}

uint8_t CmOwner::retries() {
  return static_cast<uint8_t>(patient_ ? 15 : random_.below(16));
}

void CmOwner::later(Time now, Endpoint endpoint, CmCall call, int64_t within_ms) {
  const auto delay = static_cast<int64_t>(random_.below(static_cast<uint64_t>(within_ms * kMs)));
  tasks_.push_back({now + (random_.chance(0.5) ? 0 : delay), endpoint, call});
}

void CmOwner::release_sometime(Time now, Endpoint endpoint) {
  if (random_.chance(0.1)) later(now, endpoint, CmCall::release, 20'000);
}

std::vector<CmTask> CmOwner::take_tasks() {
  std::vector<CmTask> out;
  out.swap(tasks_);
  return out;
}

void CmOwner::connect(Time now, const cm::Route& to) {
  wire::CmReq req;
  req.service_id = wire::ip_service_id(0x0106, static_cast<uint16_t>(random_.below(65536)));
  req.local_ca_guid = number_;
  req.local_qpn = new_qpn();
  req.remote_response_timeout = timeout();
  req.local_response_timeout = timeout();
  req.max_cm_retries = retries();
  req.primary.local_ack_timeout = static_cast<uint8_t>(random_.between(10, 19));
  const Endpoint endpoint = cm_.connect(now, to, req);
  if (endpoint == 0) return fail("no room to connect", 0);
  ++tally_.connects;
  if (!records_.emplace(endpoint, Record{CmPhase::connecting, false, now}).second)
    fail("its id is in use", endpoint);
  order_.push_back(endpoint);
  release_sometime(now, endpoint);
}

void CmOwner::resolve(Time now, const cm::Route& to) {
  wire::CmSidrReq req;
  req.service_id = random_.next();
  const Endpoint endpoint = cm_.resolve(now, to, req, timeout(), retries());
  if (endpoint == 0) return fail("no room to resolve", 0);
  ++tally_.resolutions;
  if (!records_.emplace(endpoint, Record{CmPhase::resolving, false, now}).second)
    fail("its id is in use", endpoint);
  order_.push_back(endpoint);
  release_sometime(now, endpoint);
}

bool CmOwner::move(const Event& event, Record& record, std::initializer_list<CmPhase> from, CmPhase to) {
  if (std::find(from.begin(), from.end(), record.phase) == from.end()) {
    fail("an event that does not follow from what was before", event.endpoint);
    return false;
  }
  record.phase = to;
  return true;
}

void CmOwner::decide_request(Time now, Endpoint endpoint) {
  const uint64_t dice = random_.below(100);
  if (dice < 75) return later(now, endpoint, CmCall::accept, 600);
  if (dice < 85) return later(now, endpoint, CmCall::reject, 600);
  if (dice < 90) return later(now, endpoint, CmCall::drop, 600);
  later(now, endpoint, CmCall::release, 10'000);
}

void CmOwner::decide_reply(Time now, Endpoint endpoint) {
  const uint64_t dice = random_.below(100);
  if (dice < 85) return later(now, endpoint, CmCall::confirm, 600);
  if (dice < 92) return later(now, endpoint, CmCall::reject, 600);
  later(now, endpoint, CmCall::release, 10'000);
}

void CmOwner::decide_established(Time now, Endpoint endpoint) {
  const uint64_t dice = random_.below(100);
  if (dice < 55) return later(now, endpoint, CmCall::disconnect, 1000);
  if (dice < 70) later(now, endpoint, CmCall::release, 1000);
}

CmOwner::Record* CmOwner::known(const Event& event) {
  const bool fresh = event.kind == Kind::request || event.kind == Kind::sidr_request;
  const auto found = records_.find(event.endpoint);
  if (!fresh) {
    if (found == records_.end()) fail("an event after release, or of nobody", event.endpoint);
    return found == records_.end() ? nullptr : &found->second;
  }
  if (found != records_.end()) {
    fail("a new endpoint with the id of another", event.endpoint);
    return nullptr;
  }
  order_.push_back(event.endpoint);
  return &records_.emplace(event.endpoint, Record{}).first->second;
}

void CmOwner::on_event(Time now, const Event& event) {
  Record* record = known(event);
  if (record == nullptr) return;
  const Endpoint endpoint = event.endpoint;
  record->since = now;
  switch (event.kind) {
    case Kind::request:
      record->phase = CmPhase::requested;
      decide_request(now, endpoint);
      release_sometime(now, endpoint);
      break;
    case Kind::reply:
      if (move(event, *record, {CmPhase::connecting}, CmPhase::replied)) decide_reply(now, endpoint);
      break;
    case Kind::established:
      if (!move(event, *record, {CmPhase::accepted}, CmPhase::established)) break;
      ++tally_.established;
      decide_established(now, endpoint);
      break;
    case Kind::rejected:
      move(event, *record, {CmPhase::connecting, CmPhase::replied, CmPhase::requested, CmPhase::accepted},
           CmPhase::over);
      ++tally_.rejected;
      later(now, endpoint, CmCall::release, 3000);
      break;
    case Kind::unreachable:
      move(event, *record, {CmPhase::connecting, CmPhase::accepted, CmPhase::resolving}, CmPhase::over);
      ++tally_.unreachable;
      later(now, endpoint, CmCall::release, 3000);
      break;
    case Kind::disconnected:
      move(event, *record, {CmPhase::replied, CmPhase::accepted, CmPhase::established},
           CmPhase::disconnected);
      ++tally_.disconnected;
      tally_.timed_out += event.timed_out;
      if (random_.chance(0.3)) later(now, endpoint, CmCall::release, 3000);
      break;
    case Kind::timewait_exit:
      move(event, *record, {CmPhase::disconnected}, CmPhase::over);
      later(now, endpoint, CmCall::release, 3000);
      break;
    case Kind::sidr_request:
      record->phase = CmPhase::asked;
      later(now, endpoint, random_.chance(0.8) ? CmCall::answer : CmCall::release, 600);
      break;
    case Kind::sidr_reply:
      move(event, *record, {CmPhase::resolving}, CmPhase::over);
      ++tally_.answers;
      later(now, endpoint, CmCall::release, 3000);
      break;
  }
  if (winding_up_ && record->phase != CmPhase::over) later(now, endpoint, CmCall::release, 3000);
}

void CmOwner::run(Time now, const CmTask& task) {
  const auto found = records_.find(task.endpoint);
  if (found == records_.end()) return;  // released meanwhile
  Record& record = found->second;
  const Endpoint endpoint = task.endpoint;
  const std::optional<State> state = cm_.state(endpoint);
  if (!state || !agrees(record.phase, *state))
    return fail("its state is not what its events have told", endpoint);
  const auto expect = [&](int error, bool legal, CmPhase next) {
    if ((error == 0) != legal) fail(legal ? "a call was refused" : "a call was not refused", endpoint);
    if (error == 0) record.phase = next;
  };
  switch (task.call) {
    case CmCall::accept: {
      wire::CmRep rep;
      rep.local_ca_guid = number_;
      rep.local_qpn = new_qpn();
      rep.target_ack_delay = static_cast<uint8_t>(random_.below(20));
      const bool legal = record.phase == CmPhase::requested;
      expect(cm_.accept(now, endpoint, rep), legal, CmPhase::accepted);
      if (legal && random_.chance(0.05)) later(now, endpoint, CmCall::establish, 500);
      break;
    }
    case CmCall::reject:
      expect(cm_.reject(now, endpoint, wire::CmRejectReason::consumer_defined, {}, {}),
             record.phase <= CmPhase::accepted, CmPhase::over);
      if (record.phase == CmPhase::over) later(now, endpoint, CmCall::release, 3000);
      break;
    case CmCall::confirm: {
      const bool legal = record.phase == CmPhase::replied;
      expect(cm_.confirm(now, endpoint, {}), legal, CmPhase::established);
      if (legal) ++tally_.established, decide_established(now, endpoint);
      break;
    }
    case CmCall::establish:  // `established` is heard of it, too
      expect(cm_.establish(now, endpoint), record.phase == CmPhase::accepted, record.phase);
      break;
    case CmCall::disconnect:
      expect(cm_.disconnect(now, endpoint, {}), *state == State::established, CmPhase::established);
      break;
    case CmCall::answer:
      expect(cm_.answer_sidr(now, endpoint, {}), record.phase == CmPhase::asked, CmPhase::over);
      if (record.phase == CmPhase::over) later(now, endpoint, CmCall::release, 3000);
      break;
    case CmCall::release:
    case CmCall::drop:
      ++tally_.releases;
      if (task.call == CmCall::release) {
        cm_.release(now, endpoint);
      } else {
        cm_.drop(endpoint);
      }
      records_.erase(found);
      break;
  }
}

void CmOwner::wind_up(Time now) {
  winding_up_ = true;
  for (const Endpoint endpoint : order_) {
    const auto found = records_.find(endpoint);
    if (found == records_.end()) continue;
    if (cm_.state(endpoint) == State::established) run(now, {now, endpoint, CmCall::disconnect});
    if (found->second.phase == CmPhase::replied || found->second.phase == CmPhase::requested)
      later(now, endpoint, CmCall::release, 3000);
  }
}

void CmOwner::release_all(Time now) {
  for (const Endpoint endpoint : order_) {
    const auto found = records_.find(endpoint);
    if (found == records_.end()) continue;
    if (found->second.phase != CmPhase::over) fail("nothing happens any more, and it is not over", endpoint);
    cm_.release(now, endpoint);
  }
  records_.clear();
}

}  // namespace uroce::sim
