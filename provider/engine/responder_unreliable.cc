// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// UC responder (IBA 9.8.2): no answers. A message with a hole is dropped whole and its receive waits for the
// next one.
#include "provider/engine/responder.h"

namespace uroce::engine::responder {

namespace {

using wire::OpcodeInfo;

// The rest of this message is passed over; a receive that it took stays for the next.
void abandon(Core& core, Qp& qp, PacketDrop reason) {
  qp.resp.message = ResponderState::Message::none;
  qp.resp.skipping = true;
  core.drop(reason);
}

Outcome execute(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  const OpcodeInfo& info = packet.info();
  Outcome outcome = Outcome::ok;
  if (info.has(OpcodeInfo::first)) {
    outcome = info.has(OpcodeInfo::send) ? begin_send(core, qp, packet) : begin_write(core, qp, packet);
  }
  if (outcome == Outcome::ok && info.has(OpcodeInfo::write) && info.has(OpcodeInfo::imm) &&
      !qp.resp.receive.taken && !core.take_receive(qp, nullptr)) {
    outcome = Outcome::not_ready;
  }
  if (outcome == Outcome::ok) outcome = take_payload(core, qp, now, packet);
  if (outcome == Outcome::ok && info.has(OpcodeInfo::last)) outcome = finish_message(core, qp, now, packet);
  return outcome;
}

}  // namespace

void on_unreliable(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  const OpcodeInfo& info = packet.info();
  const bool in_sequence = packet.bth.psn == resp.expected;
  if (!in_sequence && packet.bth.psn.before(resp.expected) &&
      packet.bth.psn.distance_from(resp.expected) > -static_cast<int32_t>(kUnreliableHistory)) {
    return core.drop(PacketDrop::duplicate);  // late or twice: not the beginning of anything new
  }
  resp.expected = packet.bth.psn + 1;
  if (!in_sequence && resp.message != ResponderState::Message::none)
    abandon(core, qp, PacketDrop::broken_message);
  if (info.has(OpcodeInfo::first)) {
    if (resp.message != ResponderState::Message::none) abandon(core, qp, PacketDrop::broken_message);
    resp.skipping = false;
  } else if (resp.skipping || !fits_opcode_sequence(resp, info)) {
    return abandon(core, qp, PacketDrop::broken_message);
  }
  const bool permitted =
      !info.has(OpcodeInfo::write) || (qp.attributes.access_flags & Access::remote_write) != 0;
  if (!permitted || !fits_length(qp, info, packet.payload.size()))
    return abandon(core, qp, PacketDrop::bad_request);

  switch (execute(core, qp, now, packet)) {
    case Outcome::ok: return;
    case Outcome::not_ready: return abandon(core, qp, PacketDrop::no_receive);
    default: break;
  }
  abandon(core, qp, PacketDrop::bad_request);
  // A receive that was too small or could not be written has completed with its error and ends the queue
  // pair; anything else the peer did wrong costs it the message.
  if (resp.receive_failed) core.fail(qp, StateReason::receive_error, Core::kNoEvent, now);
}

}  // namespace uroce::engine::responder
