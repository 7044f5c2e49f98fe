// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Names and pictures for people.
#include <string>

#include "provider/engine/engine_impl.h"

namespace uroce::engine {

const char* to_string(QpState state) {
  switch (state) {
    case QpState::reset: return "RESET";
    case QpState::init: return "INIT";
    case QpState::rtr: return "RTR";
    case QpState::rts: return "RTS";
    case QpState::sqd: return "SQD";
    case QpState::sqe: return "SQE";
    case QpState::error: return "ERR";
  }
  return "?";
}

const char* to_string(StateReason reason) {
  switch (reason) {
    case StateReason::created: return "created";
    case StateReason::modified: return "modified by the program";
    case StateReason::local_error: return "a request failed locally";
    case StateReason::peer_refused: return "the peer refused a request";
    case StateReason::no_answer: return "no answer from the peer";
    case StateReason::refused_peer: return "a request of the peer was refused";
    case StateReason::receive_error: return "a receive could not be filled";
    case StateReason::completion_queue: return "its completion queue overran";
    case StateReason::device: return "the device failed";
  }
  return "?";
}

const char* to_string(PacketDrop reason) {
  switch (reason) {
    case PacketDrop::parse_error: return "parse_error";
    case PacketDrop::unknown_qp: return "unknown_qp";
    case PacketDrop::wrong_service: return "wrong_service";
    case PacketDrop::wrong_state: return "wrong_state";
    case PacketDrop::wrong_source: return "wrong_source";
    case PacketDrop::bad_pkey: return "bad_pkey";
    case PacketDrop::bad_qkey: return "bad_qkey";
    case PacketDrop::ghost_acknowledge: return "ghost_acknowledge";
    case PacketDrop::duplicate: return "duplicate";
    case PacketDrop::out_of_sequence: return "out_of_sequence";
    case PacketDrop::bad_request: return "bad_request";
    case PacketDrop::no_receive: return "no_receive";
    case PacketDrop::receive_too_small: return "receive_too_small";
    case PacketDrop::broken_message: return "broken_message";
    case PacketDrop::multicast_not_member: return "multicast_not_member";
    case PacketDrop::kCount: break;
  }
  return "?";
}

static const char* name_of(QpType type) {
  switch (type) {
    case QpType::rc: return "RC";
    case QpType::uc: return "UC";
    case QpType::ud: return "UD";
    case QpType::xrc_initiator: return "XRC_INI";
    case QpType::xrc_target: return "XRC_TGT";
  }
  return "?";
}

std::string Engine::snapshot(const QueuePair* handle) const {
  const Qp& qp = handle->impl();
  const RequesterState& req = qp.req;
  const ResponderState& resp = qp.resp;
  const auto number = [](const char* label, uint64_t value) {
    return std::string(label) + std::to_string(value);
  };
  std::string text = number("qpn ", qp.config.qpn.value()) + " " + name_of(qp.config.type) + " " +
                     to_string(qp.current()) + " (" + to_string(qp.reason) + ")";
  if (qp.destination != nullptr) {
    text += number("\n  peer qpn ", qp.attributes.dest_qpn.value()) + number(", path MTU ", qp.mtu) +
            number(", window ", qp.destination->window()) +
            number(" bytes, under way ", qp.destination->in_flight()) +
            number(", round trip ", static_cast<uint64_t>(qp.destination->smoothed_rtt_ns())) + " ns";
  }
  if (qp.has_requester()) {
    text += number("\n  send queue: ", qp.send_queue.ring().tail() - req.head) +
            number(" open, begun ", req.begun - req.head) + number("; psn una ", req.una.value()) +
            number(", send ", req.send_psn.value()) + number(", next ", req.next_psn.value()) +
            number("; READs under way ", req.reads_in_flight) +
            (req.rnr_waiting ? "; waiting for the receiver" : "") +
            (req.probe != RequesterState::Probe::none ? "; probing after a timeout" : "");
  }
  if (qp.has_responder()) {
    text += number("\n  receive: expected psn ", resp.expected.value()) + number(", msn ", resp.msn) +
            number(", answers to send ", resp.active) + (resp.nak_sent ? ", gap reported" : "") +
            (resp.rnr_sent ? ", receive missing" : "");
    if (qp.receive_queue) text += number(", receives posted ", qp.receive_queue->waiting());
  }
  return text;
}

}  // namespace uroce::engine
