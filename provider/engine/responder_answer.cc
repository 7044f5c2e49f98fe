// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Responder: acknowledgements, NAKs and congestion notifications. At most one of the first two is due at a
// time, because each says everything the one before it said.
#include "provider/engine/responder.h"

namespace uroce::engine::responder {

namespace {

constexpr int64_t kAcknowledgeDelayNs = 200'000;  // without being asked
constexpr int64_t kNotificationPauseNs = 50'000;  // between two CNPs of one queue pair (annex A17.9.3)
constexpr uint8_t kNoCredits = 31;                // end-to-end credits are not used

bool send_answer(Core& core, const Qp& qp, const wire::Packet& packet, TxBatch& batch) {
  const size_t bytes = packet.info().header_bytes;
  std::byte* out = batch.reserve(bytes);
  if (out == nullptr) return false;
  wire::write_headers(packet, out);
  batch.commit(qp.attributes.path, qp.attributes.dest_qpn, bytes);
  ++core.counters.sent_pkts;
  return true;
}

bool send_notification(Core& core, Qp& qp, TxBatch& batch) {
  constexpr size_t kReservedBytes = 16;  // behind the BTH of a CNP
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::cnp;
  packet.bth.dest_qpn = qp.attributes.dest_qpn;
  packet.bth.becn = true;
  std::byte* out = batch.reserve(wire::kBthBytes + kReservedBytes);
  if (out == nullptr) return false;
  std::memset(out, 0, wire::kBthBytes + kReservedBytes);
  wire::write_headers(packet, out);
  batch.commit(qp.attributes.path, qp.attributes.dest_qpn, wire::kBthBytes + kReservedBytes);
  ++core.counters.sent_pkts;
  ++core.counters.cnp_sent;
  return true;
}

}  // namespace

void owe_acknowledge(Core& core, Qp& qp, Time now, bool at_once) {
  ResponderState& resp = qp.resp;
  resp.unacknowledged = true;
  if (at_once) {
    resp.due = ResponderState::Due::acknowledge;
    resp.due_now = true;
    core.answers.push_back(qp);
  } else {
    ++core.counters.ack_deferred;
    if (resp.due != ResponderState::Due::acknowledge)
      resp.due = ResponderState::Due::acknowledge, resp.due_now = false;
    if (qp.ack_at == kNever) {
      qp.ack_at = now + kAcknowledgeDelayNs;
      core.update_timer(qp);
    }
  }
}

void on_timer(Core& core, Qp& qp, Time) {
  qp.ack_at = kNever;
  if (qp.resp.due == ResponderState::Due::none) return;
  qp.resp.due_now = true;
  core.answers.push_back(qp);
}

void on_congestion_experienced(Core& core, Qp& qp, Time now) {
  ResponderState& resp = qp.resp;
  if (!qp.reliable() || now - resp.cnp_at < kNotificationPauseNs) return;
  resp.cnp_at = now;
  resp.cnp_due = true;
  core.answers.push_back(qp);
}

bool transmit_answer(Core& core, Qp& qp, Time, TxBatch& batch) {
  ResponderState& resp = qp.resp;
  if (resp.cnp_due) {
    if (!send_notification(core, qp, batch)) return false;
    resp.cnp_due = false;
  }
  // Answers go in the order of their PSNs: an acknowledgement that overtook a READ's response would declare
  // it lost. The list is joined again when the response is out.
  if (resp.due == ResponderState::Due::none || !resp.due_now || resp.active != 0) return true;
  wire::Packet packet;
  const uint8_t base = qp.service == wire::Service::xrc ? static_cast<uint8_t>(wire::Opcode::xrc_base) : 0;
  packet.bth.opcode = static_cast<wire::Opcode>(static_cast<uint8_t>(wire::Opcode::rc_acknowledge) + base);
  packet.bth.dest_qpn = qp.attributes.dest_qpn;
  switch (resp.due) {
    case ResponderState::Due::acknowledge:
      packet.bth.psn = resp.plain_psn;
      packet.aeth = {wire::AethKind::ack, kNoCredits, resp.msn};
      break;
    case ResponderState::Due::rnr_nak:
      packet.bth.psn = resp.nak_psn;
      packet.aeth = {wire::AethKind::rnr_nak, resp.nak_value, resp.msn};
      break;
    default:
      packet.bth.psn = resp.nak_psn;
      packet.aeth = {wire::AethKind::nak, resp.nak_value, resp.msn};
      break;
  }
  if (!send_answer(core, qp, packet, batch)) return false;
  resp.due = ResponderState::Due::none;
  resp.due_now = false;
  resp.unacknowledged = false;
  qp.ack_at = kNever;
  return true;
}

}  // namespace uroce::engine::responder
