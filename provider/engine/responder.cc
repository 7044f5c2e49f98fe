// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Responder: a request packet's way through the checks of IBA 9.7.4.1 (PSN, opcode sequence, rights,
// resources, length, key), in that order, to its execution.
#include "provider/engine/responder.h"

#include <bit>
#include <cstring>
#include <new>

namespace uroce::engine::responder {

namespace {

using wire::OpcodeInfo;

constexpr uint32_t kResourceOpcode = OpcodeInfo::read | OpcodeInfo::atomic | OpcodeInfo::feth;

bool is_atomic_write(const wire::Packet& packet) {
  return (static_cast<uint8_t>(packet.bth.opcode) & 0x1f) ==
         static_cast<uint8_t>(wire::Opcode::rc_atomic_write);
}

bool takes_resource(const wire::Packet& packet) {
  return (packet.info().flags & kResourceOpcode) != 0 || is_atomic_write(packet);
}

// The QP's own rights; a missing one makes the request invalid, not an access error (IBA 9.7.4.1.6).
bool qp_permits(const Qp& qp, const wire::Packet& packet) {
  const uint32_t flags = qp.attributes.access_flags;
  const OpcodeInfo& info = packet.info();
  if (is_atomic_write(packet)) return (flags & Access::remote_write) != 0;
  if (info.has(OpcodeInfo::feth)) {
    const uint32_t needed = ((packet.feth.placement & 1) != 0 ? Access::flush_global : 0) |
                            ((packet.feth.placement & 2) != 0 ? Access::flush_persistent : 0);
    return (flags & needed) == needed;
  }
  if (info.has(OpcodeInfo::atomic)) return (flags & Access::remote_atomic) != 0;
  if (info.has(OpcodeInfo::read)) return (flags & Access::remote_read) != 0;
  if (info.has(OpcodeInfo::write)) return (flags & Access::remote_write) != 0;
  return true;
}

// A packet behind a gap. One NAK for each gap (IBA 9.7.5.2.8), and another when the requester evidently came
// again and the missing packet was lost again: without it only its timer would help.
void on_gap(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  core.drop(PacketDrop::out_of_sequence);
  ++core.counters.out_of_seq_request;
  if (resp.rnr_sent) return;  // the requester is waiting and will come again from there
  const bool came_again =
      resp.nak_sent && !packet.bth.psn.after(resp.gap_psn) && now - resp.gap_nak_at > 20'000;
  resp.gap_psn = packet.bth.psn;
  if (resp.nak_sent && !came_again) return;
  resp.nak_sent = true;
  resp.gap_nak_at = now;
  resp.due = ResponderState::Due::nak;
  resp.due_now = true;
  resp.nak_value = static_cast<uint8_t>(wire::NakCode::sequence_error);
  resp.nak_psn = resp.expected;
  core.answers.push_back(qp);
}

void on_duplicate(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  core.drop(PacketDrop::duplicate);
  ++core.counters.duplicate_request;
  if (takes_resource(packet)) {
    on_duplicate_resource(core, qp, packet);
    return;
  }
  // Executed already: say again how far we are. A NAK that is due says the same and more.
  if (qp.resp.due == ResponderState::Due::none || qp.resp.due == ResponderState::Due::acknowledge) {
    owe_acknowledge(core, qp, now, true);
  }
}

void not_ready(Core& core, Qp& qp, wire::Psn psn) {
  ResponderState& resp = qp.resp;
  ++core.counters.send_rnr_err;
  core.drop(PacketDrop::no_receive);
  resp.rnr_sent = true;
  resp.due = ResponderState::Due::rnr_nak;
  resp.due_now = true;
  resp.nak_value = qp.attributes.min_rnr_timer;
  resp.nak_psn = psn;
  core.answers.push_back(qp);
}

void on_outcome(Core& core, Qp& qp, Time now, Outcome outcome, wire::Psn psn) {
  switch (outcome) {
    case Outcome::ok: return;
    case Outcome::not_ready: return not_ready(core, qp, psn);
    case Outcome::invalid_request: return refuse(core, qp, now, wire::NakCode::invalid_request, psn);
    case Outcome::access: return refuse(core, qp, now, wire::NakCode::remote_access, psn);
    case Outcome::operation: return refuse(core, qp, now, wire::NakCode::remote_operation, psn);
  }
}

Outcome execute(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  const OpcodeInfo& info = packet.info();
  if (!fits_opcode_sequence(qp.resp, info) || !qp_permits(qp, packet)) return Outcome::invalid_request;
  if (qp.config.type == QpType::xrc_target) {
    SharedReceiveQueue::Impl* named = nullptr;
    if (!find_receive_queue(core, qp, packet, named)) return Outcome::invalid_request;
    qp.resp.xrc_pd = named->config.pd;
  }
  if (takes_resource(packet)) return accept_resource(core, qp, packet);
  if (!fits_length(qp, info, packet.payload.size())) return Outcome::invalid_request;
  Outcome outcome = Outcome::ok;
  if (info.has(OpcodeInfo::first)) {
    outcome = info.has(OpcodeInfo::send) ? begin_send(core, qp, packet) : begin_write(core, qp, packet);
  }
  // WRITE with immediate consumes a receive at its last packet; without one nothing of that packet is
  // executed.
  if (outcome == Outcome::ok && info.has(OpcodeInfo::write) && info.has(OpcodeInfo::imm) &&
      !qp.resp.receive.taken) {
    SharedReceiveQueue::Impl* srq = nullptr;
    if (!find_receive_queue(core, qp, packet, srq)) return Outcome::invalid_request;
    if (!core.take_receive(qp, srq)) outcome = Outcome::not_ready;
  }
  // Nothing has begun; the same packet comes again.
  if (outcome == Outcome::not_ready && info.has(OpcodeInfo::first))
    qp.resp.message = ResponderState::Message::none;
  if (outcome == Outcome::ok) outcome = take_payload(core, qp, now, packet);
  if (outcome == Outcome::ok && info.has(OpcodeInfo::last)) outcome = finish_message(core, qp, now, packet);
  return outcome;
}

}  // namespace

bool start(Qp& qp, uint8_t max_dest_rd_atomic) {
  ResponderState& resp = qp.resp;
  std::unique_ptr<ResponderResource[]> resources;
  const uint32_t slots = std::bit_ceil(uint32_t{max_dest_rd_atomic});
  if (max_dest_rd_atomic != 0) {
    resources.reset(new (std::nothrow) ResponderResource[slots]);
    if (resources == nullptr) return false;
  }
  resp.resources = std::move(resources);
  resp.resource_count = max_dest_rd_atomic;
  resp.resource_slots = max_dest_rd_atomic != 0 ? slots : 0;
  resp.newest = resp.answering = resp.active = 0;
  return true;
}

void stop(Core& core, Qp& qp) {
  ResponderState& resp = qp.resp;
  qp.ack_at = qp.pace_until = kNever;
  resp.due = ResponderState::Due::none;
  resp.cnp_due = false;
  resp.message = ResponderState::Message::none;
  resp.unacknowledged = false;
  for (uint32_t i = 0; i < resp.resource_slots; ++i) resp.resources[i] = {};
  resp.newest = resp.answering = resp.active = 0;
  core.answers.remove(qp);
}

// Which packet may follow which (IBA 9.7.4.1.3).
bool fits_opcode_sequence(const ResponderState& resp, const OpcodeInfo& info) {
  using Message = ResponderState::Message;
  const bool message = info.has(OpcodeInfo::send) || info.has(OpcodeInfo::write);
  if (resp.message == Message::none) return !message || info.has(OpcodeInfo::first);
  if (!message || info.has(OpcodeInfo::first)) return false;
  return resp.message == (info.has(OpcodeInfo::send) ? Message::send : Message::write);
}

// Only the last packet of a message may be short, and it is empty only if it is the only one (IBA 9.7.4.1.4).
bool fits_length(const Qp& qp, const OpcodeInfo& info, size_t payload) {
  if (!info.has(OpcodeInfo::last)) return payload == qp.mtu;
  if (payload > qp.mtu) return false;
  return payload != 0 || info.has(OpcodeInfo::first);
}

void on_request(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  const int32_t ahead = packet.bth.psn.distance_from(resp.expected);
  if (resp.refused) {  // in ERR already; the peer evidently missed why
    if (ahead < 0) {
      if (takes_resource(packet)) on_duplicate_resource(core, qp, packet);
    } else {
      resp.due = ResponderState::Due::nak;
      resp.due_now = true;
      core.answers.push_back(qp);
    }
    return core.drop(PacketDrop::wrong_state);
  }
  if (ahead > 0) return on_gap(core, qp, now, packet);
  if (ahead < 0) return on_duplicate(core, qp, now, packet);

  const Outcome outcome = execute(core, qp, now, packet);
  if (outcome != Outcome::ok) return on_outcome(core, qp, now, outcome, packet.bth.psn);
  resp.nak_sent = resp.rnr_sent = false;
  if (takes_resource(packet)) {
    // Its own answer acknowledges all before it; a NAK or acknowledgement that was due is out of date.
    resp.due = ResponderState::Due::none;
    resp.unacknowledged = false;
    qp.ack_at = kNever;
    core.schedule(qp);
    return;
  }
  resp.plain_psn = packet.bth.psn;
  ++resp.expected;
  owe_acknowledge(core, qp, now, packet.bth.ack_request);
}

void refuse(Core& core, Qp& qp, Time now, wire::NakCode code, wire::Psn psn) {
  ResponderState& resp = qp.resp;
  core.drop(PacketDrop::bad_request);
  resp.refused = true;
  resp.due = ResponderState::Due::nak;
  resp.due_now = true;
  resp.nak_value = static_cast<uint8_t>(code);
  resp.nak_psn = psn;
  resp.message = ResponderState::Message::none;
  core.answers.push_back(qp);
  // A receive that broke tells the program by its completion; else there is an event (IBA 11.6.3).
  uint32_t event = Core::kNoEvent;
  if (!resp.receive_failed) {
    switch (code) {
      case wire::NakCode::remote_access: event = async_event::kQpAccessError; break;
      case wire::NakCode::remote_operation: event = async_event::kQpFatal; break;
      default: event = async_event::kQpRequestError; break;
    }
  }
  core.fail(qp, resp.receive_failed ? StateReason::receive_error : StateReason::refused_peer, event, now);
}

}  // namespace uroce::engine::responder
