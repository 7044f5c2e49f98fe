// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Requester: start and stop, timers, going back after a loss, and requests that fail.
//
// Two clocks run. The retransmission timeout follows the measured round trip, sends one packet that asks what
// arrived, and spends no retry: a lost packet costs a millisecond, not an IB timeout. The IB timeout counts
// from the last progress only, and ends the queue pair after (retry_cnt + 1) of them, never earlier.
#include <algorithm>

#include "provider/engine/requester.h"

namespace uroce::engine::requester {

namespace {

constexpr int64_t kIbTimeoutUnitNs = 4096;
constexpr int64_t kMaxRetransmissionNs = 500'000'000;
constexpr int64_t kStalledNs = 20'000'000;

int64_t ib_timeout_ns(const Core& core, const Qp& qp) {
  return std::max(kIbTimeoutUnitNs << qp.attributes.timeout, core.config.minimum_ib_timeout_ns);
}

// Time without progress after which the peer is given up (IBA 9.7.6.1.3).
int64_t retry_budget_ns(const Core& core, const Qp& qp) {
  return ib_timeout_ns(core, qp) * (qp.attributes.retry_cnt + 1);
}

bool outstanding(const RequesterState& req) {
  return req.una != req.next_psn;
}

}  // namespace

void start(Qp& qp) {
  RequesterState& req = qp.req;
  req.una = req.send_psn = req.next_psn = qp.attributes.sq_psn;
}

void stop(Core& core, Qp& qp) {
  RequesterState& req = qp.req;
  qp.retransmit_at = qp.rnr_at = kNever;
  req.rnr_waiting = req.failing = req.timing = false;
  req.probe = RequesterState::Probe::none;
  req.reads_in_flight = 0;
  if (qp.destination == nullptr) return;
  qp.destination->waiting.remove(qp);
  req.una = req.send_psn = req.next_psn;
  if (qp.reliable()) update_charge(core, qp);
}

void check_drained(Core& core, Qp& qp) {
  if (qp.current() != QpState::sqd || qp.sq_drained || qp.req.head != qp.req.begun) return;
  qp.sq_drained = true;
  if (qp.sqd_event) core.raise(qp, async_event::kSqDrained);
}

void arm_retransmission(Core& core, Qp& qp, Time now) {
  RequesterState& req = qp.req;
  qp.retransmit_at = kNever;
  // timeout 0: no timer at all; a loss is repaired by what else the peer says.
  if (qp.attributes.timeout == 0 || !qp.reliable() || !outstanding(req) || req.rnr_waiting) return;
  // Several probes for every IB timeout: a peer that wakes up late is asked before it is given up.
  const int64_t longest = std::min(kMaxRetransmissionNs, ib_timeout_ns(core, qp) / 4);
  const int64_t wait = std::min(qp.destination->retransmission_timeout_ns() << req.backoff, longest);
  const Time budget_ends = req.last_progress + retry_budget_ns(core, qp);
  qp.retransmit_at = std::max(std::min(now + wait, budget_ends), now);
  core.update_timer(qp);
}

void go_back(Core& core, Qp& qp) {
  RequesterState& req = qp.req;
  req.cursor = req.head;
  req.send_psn = req.una;
  req.reads_in_flight = 0;
  req.timing = false;
  req.gather_valid = false;
  req.unasked = 0;
  update_charge(core, qp);
}

void go_on_in_front(Core& core, Qp& qp) {
  RequesterState& req = qp.req;
  if (req.head == req.begun || qp.current() != QpState::rts) return;
  for (uint32_t i = req.head; i != req.begun; ++i) {
    if (is_read_like(qp.send_queue.at(i).opcode)) return;  // whose answers are counted as they are asked for
  }
  const bool last_is_sent = qp.send_queue.at(req.begun - 1).lies_before(req.next_psn);
  if (last_is_sent && qp.send_queue.ring().tail() == req.begun) return;
  req.cursor = last_is_sent ? req.begun : req.begun - 1;
  req.send_psn = req.next_psn;
  req.gather_valid = false;
  update_charge(core, qp);
}

void restart(Core& core, Qp& qp, Time now) {
  RequesterState& req = qp.req;
  if (req.rnr_waiting || !outstanding(req)) return;
  // Once per loss: what was under way when we went back complains again until the repetition arrives.
  if (req.restarted && now - req.restarted_at < qp.destination->round_trip_ns()) return;
  req.restarted = true;
  req.restarted_at = now;
  ++core.counters.completer_retry_err;
  qp.destination->on_loss(now, charge_of(qp.mtu));
  req.probe = RequesterState::Probe::none;
  go_back(core, qp);
  arm_retransmission(core, qp, now);
  core.schedule(qp);
}

void on_timer(Core& core, Qp& qp, Time now) {
  RequesterState& req = qp.req;
  if (qp.rnr_at <= now) {
    qp.rnr_at = kNever;
    req.rnr_waiting = false;
    req.last_progress = now;  // the peer lives, it only was not ready
    core.schedule(qp);
    arm_retransmission(core, qp, now);
    return;
  }
  // Far too late: it was us who slept, and the peer's answers may still lie unread (a breakpoint, a busy
  // machine).
  const int64_t late = now - qp.retransmit_at;
  if (late > kStalledNs) req.last_progress = req.last_progress + late;
  qp.retransmit_at = kNever;
  if (!outstanding(req)) return;
  if (now - req.last_progress >= retry_budget_ns(core, qp)) {
    ++core.counters.retry_exceeded_err;
    return fail_head(core, qp, now, WcStatus::retry_exceeded, VendorError::no_answer, StateReason::no_answer);
  }
  ++core.counters.timeouts;
  qp.destination->on_timeout(now, charge_of(qp.mtu), req.backoff != 0);
  if (req.backoff < 8) ++req.backoff;
  go_back(core, qp);
  req.probe = RequesterState::Probe::send;
  arm_retransmission(core, qp, now);
  core.schedule(qp);
}

void on_congestion_notification(Core& core, Qp& qp, Time now) {
  ++core.counters.cnp_received;
  if (qp.destination != nullptr) qp.destination->on_congestion_notification(now, charge_of(qp.mtu));
}

void fail_request(Core& core, Qp& qp, Time now, uint32_t index, WcStatus status, VendorError reason) {
  RequesterState& req = qp.req;
  if (req.failing) return;
  req.failing = true;
  req.failing_index = index;
  req.failing_status = status;
  req.failing_reason = reason;
  retire(core, qp, now);
}

void fail_head(Core& core, Qp& qp, Time now, WcStatus status, VendorError reason, StateReason why) {
  RequesterState& req = qp.req;
  req.failing = false;
  if (req.head != qp.send_queue.ring().tail()) core.complete_head(qp, status, reason, now);
  // IBA 10.3.1: unconnected and unreliable send queues stop in SQE, their receive side lives on.
  core.set_state(qp, qp.reliable() ? QpState::error : QpState::sqe, why, now);
}

}  // namespace uroce::engine::requester
