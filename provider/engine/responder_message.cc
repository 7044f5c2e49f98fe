// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Responder: SEND and WRITE, from payload to memory and the receive completion.
#include <cstring>

#include "provider/engine/responder.h"

namespace uroce::engine::responder {

namespace {

using wire::OpcodeInfo;

// The receive under way ends with an error that the program reads in its completion.
Outcome fail_receive(Core& core, Qp& qp, Time now, WcStatus status, VendorError reason, Outcome answer) {
  Completion completion;
  completion.status = status;
  completion.opcode = WcOpcode::recv;
  completion.vendor_error = static_cast<uint32_t>(reason);
  qp.resp.receive_failed = true;
  core.complete_receive(qp, now, completion, true);
  return answer;
}

Outcome take_send(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  const size_t bytes = packet.payload.size();
  if (resp.received + bytes > resp.receive.bytes) {
    return fail_receive(core, qp, now, WcStatus::local_length_error, VendorError::receive_too_small,
                        Outcome::invalid_request);
  }
  if (bytes == 0) return Outcome::ok;
  const CopyResult copied = scatter(core, resp.receive.pd, resp.receive.sges.data(), resp.receive.num_sge,
                                    resp.received, packet.payload.data(), bytes);
  if (copied != CopyResult::ok) {
    const VendorError reason =
        copied == CopyResult::fault ? VendorError::local_fault : VendorError::local_key;
    return fail_receive(core, qp, now, WcStatus::local_protection_error, reason, Outcome::operation);
  }
  resp.received += bytes;
  return Outcome::ok;
}

Outcome take_write(Core& core, Qp& qp, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  const auto bytes = static_cast<uint32_t>(packet.payload.size());
  // What RETH announced has to come, no more, no less (IBA 9.7.4.1.7).
  if (bytes > resp.write_left || (packet.info().has(OpcodeInfo::last) && bytes != resp.write_left)) {
    return Outcome::invalid_request;
  }
  if (bytes == 0) return Outcome::ok;
  // Again for every packet: the region may have been deregistered in between.
  MappedRange range;
  if (core.regions.check_remote(resp.write_rkey, qp.target_domain(), qp.config.qpn, Access::remote_write,
                                resp.write_va, bytes, range) != KeyCheck::ok) {
    return Outcome::access;
  }
  if (!range.null && !core.memory.write(range.host_va, packet.payload.data(), bytes)) {
    ++core.counters.memory_faults;
    return Outcome::access;
  }
  resp.write_va += bytes;
  resp.write_left -= bytes;
  resp.received += bytes;
  return Outcome::ok;
}

}  // namespace

bool find_receive_queue(Core& core, const Qp& qp, const wire::Packet& packet,
                        SharedReceiveQueue::Impl*& srq) {
  srq = qp.config.srq != nullptr ? &qp.config.srq->impl() : nullptr;
  if (qp.config.type != QpType::xrc_target) return true;
  const auto entry = core.srqs.find(packet.xrc_srqn);
  if (entry == core.srqs.end()) return false;
  srq = entry->second.get();
  return srq->config.xrc && srq->config.xrc_domain == qp.config.xrc_domain;
}

Outcome begin_send(Core& core, Qp& qp, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  if (!resp.receive.taken) {
    SharedReceiveQueue::Impl* srq = nullptr;
    if (!find_receive_queue(core, qp, packet, srq)) return Outcome::invalid_request;
    if (!core.take_receive(qp, srq)) return Outcome::not_ready;
  }
  resp.message = ResponderState::Message::send;
  resp.received = 0;
  return Outcome::ok;
}

Outcome begin_write(Core& core, Qp& qp, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  const wire::Reth& reth = packet.reth;
  if (reth.length > kMaxMessage) return Outcome::invalid_request;
  // The whole range at once, so that a message that cannot end does not begin. Nothing is checked for no
  // bytes.
  if (reth.length != 0) {
    MappedRange range;
    if (core.regions.check_remote(reth.rkey, qp.target_domain(), qp.config.qpn, Access::remote_write, reth.va,
                                  reth.length, range) != KeyCheck::ok) {
      return Outcome::access;
    }
  }
  resp.message = ResponderState::Message::write;
  resp.received = 0;
  resp.write_va = reth.va;
  resp.write_rkey = reth.rkey;
  resp.write_left = reth.length;
  return Outcome::ok;
}

Outcome take_payload(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  return packet.info().has(OpcodeInfo::send) ? take_send(core, qp, now, packet)
                                             : take_write(core, qp, packet);
}

Outcome finish_message(Core& core, Qp& qp, Time now, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  const OpcodeInfo& info = packet.info();
  resp.message = ResponderState::Message::none;
  resp.msn = (resp.msn + 1) & 0xffffff;
  const bool receives = info.has(OpcodeInfo::send) || info.has(OpcodeInfo::imm);
  if (!receives) return Outcome::ok;
  Completion completion;
  completion.opcode = info.has(OpcodeInfo::send) ? WcOpcode::recv : WcOpcode::recv_rdma_with_imm;
  completion.byte_len = static_cast<uint32_t>(resp.received);
  completion.src_qp = qp.attributes.dest_qpn.value();
  if (info.has(OpcodeInfo::imm)) {
    completion.flags |= Completion::kWithImm;
    completion.imm_or_rkey = packet.imm_be;
  } else if (info.has(OpcodeInfo::ieth)) {
    if (!core.regions.invalidate(packet.invalidate_rkey, qp.target_domain(), qp.config.qpn)) {
      return fail_receive(core, qp, now, WcStatus::memory_window_bind_error, VendorError::invalidate_refused,
                          Outcome::access);
    }
    completion.flags |= Completion::kWithInvalidate;
    completion.imm_or_rkey = packet.invalidate_rkey;
  }
  ++core.counters.rdma_recvs;
  // The completion queue overran: the data must not be acknowledged as if somebody had got it.
  return core.complete_receive(qp, now, completion, packet.bth.solicited) ? Outcome::ok : Outcome::operation;
}

}  // namespace uroce::engine::responder
