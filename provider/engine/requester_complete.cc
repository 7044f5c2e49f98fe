// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Requester, inward: from acknowledgements and responses to completions (IBA 9.7.5.2).
#include <algorithm>
#include <cstring>

#include "provider/engine/requester.h"
#include "provider/engine/rnr_timer.h"

namespace uroce::engine::requester {

namespace {

void wake_waiting(Core& core, Destination& destination, uint32_t charge) {
  uint64_t room =
      destination.window() > destination.in_flight() ? destination.window() - destination.in_flight() : 0;
  while (Qp* waiting = destination.waiting.front()) {
    if (room < charge && destination.in_flight() != 0) return;
    destination.waiting.remove(*waiting);
    core.schedule(*waiting);
    room -= std::min<uint64_t>(room, charge);
    if (room < charge) return;
  }
}

void on_nak(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  const wire::Psn psn = packet.bth.psn;
  const bool all_before = acknowledge_before(core, qp, now, psn);
  if (qp.current() == QpState::error) return;
  const auto code = static_cast<wire::NakCode>(packet.aeth.value);
  if (code == wire::NakCode::sequence_error) ++core.counters.rcvd_seq_err;
  // A READ before the refused request is not answered yet: its response was lost, ask again first.
  if (code == wire::NakCode::sequence_error || !all_before) return restart(core, qp, now);
  WcStatus status = WcStatus::remote_invalid_request;
  switch (code) {
    case wire::NakCode::remote_access: status = WcStatus::remote_access_error; break;
    case wire::NakCode::remote_operation: status = WcStatus::remote_operation_error; break;
    case wire::NakCode::invalid_request: break;
    default: return core.drop(PacketDrop::ghost_acknowledge);  // reserved codes
  }
  fail_head(core, qp, now, status, VendorError::nak, StateReason::peer_refused);
}

void on_receiver_not_ready(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  RequesterState& req = qp.req;
  if (req.rnr_waiting) return core.drop(PacketDrop::duplicate);
  const bool all_before = acknowledge_before(core, qp, now, packet.bth.psn);
  if (qp.current() == QpState::error) return;
  if (!all_before) return restart(core, qp, now);
  ++core.counters.rcvd_rnr_err;
  constexpr uint8_t kForEver = 7;
  if (qp.attributes.rnr_retry != kForEver && req.rnr_retries >= qp.attributes.rnr_retry) {
    ++core.counters.retry_rnr_exceeded_err;
    return fail_head(core, qp, now, WcStatus::rnr_retry_exceeded, VendorError::receiver_not_ready,
                     StateReason::peer_refused);
  }
  if (qp.attributes.rnr_retry != kForEver) ++req.rnr_retries;
  go_back(core, qp);
  req.rnr_waiting = true;
  req.probe = RequesterState::Probe::none;
  qp.retransmit_at = kNever;
  qp.rnr_at = now + rnr_timer_ns(packet.aeth.value);
  core.update_timer(qp);
}

void on_acknowledge(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  switch (packet.aeth.kind) {
    case wire::AethKind::ack:
      // Acknowledged beyond a READ that is not complete: its response was lost (IBA 9.7.5.1.2).
      if (!acknowledge_before(core, qp, now, packet.bth.psn + 1)) restart(core, qp, now);
      return;
    case wire::AethKind::rnr_nak: return on_receiver_not_ready(core, qp, now, packet);
    case wire::AethKind::nak: return on_nak(core, qp, now, packet);
    case wire::AethKind::reserved: return core.drop(PacketDrop::ghost_acknowledge);
  }
}

// The response is to the oldest open request and the next one of it; else nullptr, and what that means was
// done.
SendWqe* expected_by(Core& core, Qp& qp, Time now, wire::Psn psn) {
  const bool all_before = acknowledge_before(core, qp, now, psn);
  RequesterState& req = qp.req;
  if (qp.current() == QpState::error) return nullptr;
  if (!all_before || req.una != psn) {
    restart(core, qp, now);  // a response before this one is missing
    return nullptr;
  }
  SendWqe& wqe = qp.send_queue.at(req.head);
  if (req.head == req.begun || !is_read_like(wqe.opcode)) {
    core.drop(PacketDrop::ghost_acknowledge);
    return nullptr;
  }
  return &wqe;
}

// One more response of the oldest request is in.
void advance(Core& core, Qp& qp, Time now, SendWqe& wqe) {
  RequesterState& req = qp.req;
  ++wqe.done_packets;
  const bool request_answered = wqe.done_packets == wqe.packets || wqe.done_packets % wqe.chunk == 0;
  const wire::Psn next = req.una + 1;
  // Only requests of this pass are counted; what the cursor has not reached again is answered without having
  // been asked anew.
  if (request_answered && !next.after(req.send_psn) && req.reads_in_flight != 0) --req.reads_in_flight;
  set_una(core, qp, now, next);
  retire(core, qp, now);
}

void on_read_response(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  SendWqe* wqe = expected_by(core, qp, now, packet.bth.psn);
  if (wqe == nullptr) return;
  // FLUSH and atomic write are answered by a READ RESPONSE ONLY without payload.
  const bool is_read = wqe->opcode == WrOpcode::read;
  if (!is_read && (wqe->opcode == WrOpcode::compare_swap || wqe->opcode == WrOpcode::fetch_add)) {
    return core.drop(PacketDrop::ghost_acknowledge);
  }
  const uint32_t offset = wqe->done_packets * qp.mtu;
  const uint32_t due = is_read ? std::min(qp.mtu, wqe->length - offset) : 0;
  if (packet.payload.size() != due) {
    return fail_head(core, qp, now, WcStatus::bad_response, VendorError::response_length,
                     StateReason::local_error);
  }
  if (due != 0) {
    const CopyResult copied =
        scatter(core, qp.config.pd, wqe->sges(), wqe->num_sge, offset, packet.payload.data(), due);
    if (copied != CopyResult::ok) {
      const VendorError reason =
          copied == CopyResult::fault ? VendorError::local_fault : VendorError::local_key;
      return fail_head(core, qp, now, WcStatus::local_protection_error, reason, StateReason::local_error);
    }
  }
  advance(core, qp, now, *wqe);
}

void on_atomic_response(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  SendWqe* wqe = expected_by(core, qp, now, packet.bth.psn);
  if (wqe == nullptr) return;
  if (wqe->opcode != WrOpcode::compare_swap && wqe->opcode != WrOpcode::fetch_add) {
    return core.drop(PacketDrop::ghost_acknowledge);
  }
  std::byte original[8];  // host order in the program's memory
  std::memcpy(original, &packet.atomic_original, sizeof original);
  const CopyResult copied =
      scatter(core, qp.config.pd, wqe->sges(), wqe->num_sge, 0, original, sizeof original);
  if (copied != CopyResult::ok) {
    const VendorError reason =
        copied == CopyResult::fault ? VendorError::local_fault : VendorError::local_key;
    return fail_head(core, qp, now, WcStatus::local_protection_error, reason, StateReason::local_error);
  }
  advance(core, qp, now, *wqe);
}

}  // namespace

bool acknowledge_before(Core& core, Qp& qp, Time now, wire::Psn psn) {
  RequesterState& req = qp.req;
  wire::Psn reach = req.una;
  bool open = false;
  for (uint32_t i = req.head; i != req.begun && reach.before(psn); ++i) {
    const SendWqe& wqe = qp.send_queue.at(i);
    if (wqe.packets == 0) continue;
    if (is_read_like(wqe.opcode)) {  // only its own response ends it
      open = true;
      break;
    }
    reach = psn.before(wqe.end_psn()) ? psn : wqe.end_psn();
  }
  set_una(core, qp, now, reach);
  retire(core, qp, now);
  return !open;
}

void set_una(Core& core, Qp& qp, Time now, wire::Psn una) {
  RequesterState& req = qp.req;
  const int32_t packets = una.distance_from(req.una);
  if (packets <= 0) return;
  // More than the probe has arrived: nothing was lost, the peer was only slow.
  const bool was_slow = req.probe == RequesterState::Probe::wait && packets > 1;
  if (req.probe == RequesterState::Probe::wait) qp.destination->on_timeout_answered(!was_slow);
  req.una = una;
  req.restarted = false;
  req.backoff = 0;
  req.probe = RequesterState::Probe::none;
  req.rnr_retries = 0;
  req.last_progress = now;
  const uint32_t charge = charge_of(qp.mtu);
  if (req.timing && una.after(req.timed_psn)) {
    req.timing = false;
    qp.destination->on_round_trip(now - req.timed_at);
  }
  qp.destination->on_acknowledged(now, static_cast<uint64_t>(packets) * charge, charge);
  // Answered beyond where we are repeating: nothing before that need be sent again. retire() moves the cursor
  // along.
  if (req.send_psn.before(una)) {
    req.send_psn = una;
    req.reads_in_flight = 0;
  }
  if (req.send_psn == una) req.reads_in_flight = 0;
  if (was_slow) go_on_in_front(core, qp);
  update_charge(core, qp);
  qp.retransmit_at = kNever;
  arm_retransmission(core, qp, now);
  core.schedule(qp);
}

void retire(Core& core, Qp& qp, Time now) {
  RequesterState& req = qp.req;
  const uint32_t before = req.head;
  while (req.head != req.begun && !(req.failing && req.head == req.failing_index)) {
    if (!qp.send_queue.at(req.head).lies_before(req.una)) break;
    core.complete_head(qp, WcStatus::success, VendorError::none, now);
  }
  if (req.head != before && static_cast<int32_t>(req.cursor - req.head) < 0) req.cursor = req.head;
  if (req.failing && req.head == req.failing_index) {
    return fail_head(core, qp, now, req.failing_status, req.failing_reason, StateReason::local_error);
  }
  check_drained(core, qp);
}

void on_response(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  const wire::Psn psn = packet.bth.psn;
  const RequesterState& req = qp.req;
  if (!psn.before(req.next_psn)) return core.drop(PacketDrop::ghost_acknowledge);  // never sent
  if (psn.before(req.una)) return core.drop(PacketDrop::duplicate);
  const wire::OpcodeInfo& info = packet.info();
  if (info.has(wire::OpcodeInfo::atomic)) return on_atomic_response(core, qp, now, packet);
  if (info.has(wire::OpcodeInfo::read)) return on_read_response(core, qp, now, packet);
  on_acknowledge(core, qp, now, packet);
}

void update_charge(Core& core, Qp& qp) {
  RequesterState& req = qp.req;
  const uint32_t charge = charge_of(qp.mtu);
  const uint64_t holds = static_cast<uint64_t>(req.send_psn.distance_from(req.una)) * charge;
  if (holds == req.charged) return;
  qp.destination->change_in_flight(static_cast<int64_t>(holds) - static_cast<int64_t>(req.charged));
  const bool less = holds < req.charged;
  req.charged = holds;
  if (less) wake_waiting(core, *qp.destination, charge);
}

}  // namespace uroce::engine::requester
