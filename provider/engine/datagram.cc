// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/datagram.h"

#include <cstring>

#include "provider/engine/requester.h"
#include "provider/engine/unreliable_pace.h"
#include "provider/wire/ip_header.h"

namespace uroce::engine::datagram {

namespace {

using wire::OpcodeInfo;

CopyResult gather(Core& core, const Qp& qp, const SendWqe& wqe, std::byte* out) {
  if (wqe.inline_data) {
    std::memcpy(out, wqe.inline_bytes(), wqe.length);
    return CopyResult::ok;
  }
  for (uint32_t i = 0; i < wqe.num_sge; ++i) {
    const SgEntry& sge = wqe.sges()[i];
    MappedRange range;
    if (core.regions.check_local(sge.lkey, qp.config.pd, 0, sge.va, sge.length, range) != KeyCheck::ok) {
      return CopyResult::bad_key;
    }
    if (range.null) {
      std::memset(out, 0, sge.length);
    } else if (!core.memory.read(out, range.host_va, sge.length)) {
      ++core.counters.memory_faults;
      return CopyResult::fault;
    }
    out += sge.length;
  }
  return CopyResult::ok;
}

wire::Packet headers(const Qp& qp, const SendWqe& wqe) {
  wire::Packet packet;
  packet.bth.opcode =
      wqe.opcode == WrOpcode::send_imm ? wire::Opcode::ud_send_only_imm : wire::Opcode::ud_send_only;
  packet.bth.solicited = wqe.solicited;
  packet.bth.pad = wire::pad_for(wqe.length);
  packet.bth.dest_qpn = wqe.datagram.qpn;
  packet.bth.psn = qp.req.next_psn;
  // IBA 10.2.5: a Q_Key with the top bit set stands for the queue pair's own.
  constexpr uint32_t kControlled = 1u << 31;
  packet.deth.qkey = (wqe.datagram.qkey & kControlled) != 0 ? qp.attributes.qkey : wqe.datagram.qkey;
  packet.deth.source_qpn = qp.config.qpn;
  packet.imm_be = wqe.imm_be;
  return packet;
}

bool receives(QpState state) {
  return state == QpState::rtr || state == QpState::rts || state == QpState::sqd || state == QpState::sqe;
}

// The IP header where verbs expect the GRH: 40 bytes, of which IPv4 uses the last 20 (annex A17.4.5.2).
CopyResult write_grh(Core& core, const TakenReceive& taken, size_t packet_bytes, const RxMeta& meta) {
  constexpr size_t kUdpAndIcrc = wire::kUdpBytes + wire::kIcrcBytes;
  std::array<std::byte, wire::kGrhBytes> area{};
  wire::IpFields ip;
  ip.source = meta.source;
  ip.destination = meta.destination;
  ip.traffic_class = meta.traffic_class;
  ip.hop_limit = meta.hop_limit;
  wire::write_grh_area(ip, packet_bytes + kUdpAndIcrc, area);
  const size_t from = meta.destination.is_ipv4() ? wire::kGrhBytes - wire::kIpv4Bytes : 0;
  return scatter(core, taken.pd, taken.sges.data(), taken.num_sge, from, area.data() + from,
                 area.size() - from);
}

void deliver(Core& core, Qp& qp, Time now, const wire::Packet& packet, size_t packet_bytes,
             const RxMeta& meta) {
  SharedReceiveQueue::Impl* srq = qp.config.srq != nullptr ? &qp.config.srq->impl() : nullptr;
  TakenReceive& taken = qp.resp.receive;
  if (!taken.taken && !core.take_receive(qp, srq)) return core.drop(PacketDrop::no_receive);
  const size_t bytes = wire::kGrhBytes + packet.payload.size();
  // The receive stays for the next datagram: the sender's mistake costs the sender's message.
  if (bytes > taken.bytes) return core.drop(PacketDrop::receive_too_small);
  CopyResult copied = write_grh(core, taken, packet_bytes, meta);
  if (copied == CopyResult::ok && !packet.payload.empty()) {
    copied = scatter(core, taken.pd, taken.sges.data(), taken.num_sge, wire::kGrhBytes, packet.payload.data(),
                     packet.payload.size());
  }
  Completion completion;
  completion.opcode = WcOpcode::recv;
  completion.flags = Completion::kGrh;
  completion.byte_len = static_cast<uint32_t>(bytes);
  completion.src_qp = packet.deth.source_qpn.value();
  if (packet.info().has(OpcodeInfo::imm)) {
    completion.flags |= Completion::kWithImm;
    completion.imm_or_rkey = packet.imm_be;
  }
  if (copied != CopyResult::ok) {
    completion.status = WcStatus::local_protection_error;
    completion.vendor_error = static_cast<uint32_t>(copied == CopyResult::fault ? VendorError::local_fault
                                                                                : VendorError::local_key);
    core.complete_receive(qp, now, completion, true);
    return core.fail(qp, StateReason::receive_error, Core::kNoEvent, now);
  }
  ++core.counters.rdma_recvs;
  core.complete_receive(qp, now, completion, packet.bth.solicited);
}

}  // namespace

Turn transmit(Core& core, Qp& qp, Time now, TxBatch& batch, int64_t& quantum) {
  RequesterState& req = qp.req;
  while (qp.current() == QpState::rts && req.begun != qp.send_queue.ring().tail()) {
    if (quantum <= 0) return Turn::more;
    if (!unreliable_pace::may_send(core, qp, now)) return Turn::idle;
    const SendWqe& wqe = qp.send_queue.at(req.begun);
    const wire::Packet packet = headers(qp, wqe);
    const size_t bytes = packet.info().header_bytes + wqe.length + packet.bth.pad;
    std::byte* out = batch.reserve(bytes);
    if (out == nullptr) return Turn::batch_full;
    std::byte* data = out + wire::write_headers(packet, out);
    const CopyResult copied = gather(core, qp, wqe, data);
    if (copied != CopyResult::ok) {
      const VendorError reason =
          copied == CopyResult::fault ? VendorError::local_fault : VendorError::local_key;
      requester::fail_head(core, qp, now, WcStatus::local_protection_error, reason, StateReason::local_error);
      return Turn::idle;
    }
    std::memset(data + wqe.length, 0, packet.bth.pad);
    batch.commit(wqe.datagram.path, wqe.datagram.qpn, bytes);
    ++core.counters.sent_pkts;
    ++core.counters.rdma_sends;
    ++req.next_psn;
    quantum -= static_cast<int64_t>(bytes);
    unreliable_pace::sent(core, qp, wqe.length);
    req.cursor = ++req.begun;
    core.complete_head(qp, WcStatus::success, VendorError::none, now);
  }
  return Turn::idle;
}

void on_packet(Core& core, Qp& qp, Time now, const wire::Packet& packet, size_t packet_bytes,
               const RxMeta& meta) {
  if (!receives(qp.current())) return core.drop(PacketDrop::wrong_state);
  if (packet.deth.qkey != qp.attributes.qkey) return core.drop(PacketDrop::bad_qkey);
  deliver(core, qp, now, packet, packet_bytes, meta);
}

void on_multicast(Core& core, Time now, const wire::Packet& packet, size_t packet_bytes, const RxMeta& meta) {
  const auto group = core.multicast.find(meta.destination);
  if (group == core.multicast.end()) return core.drop(PacketDrop::multicast_not_member);
  for (Qp* qp : group->second) on_packet(core, *qp, now, packet, packet_bytes, meta);
}

}  // namespace uroce::engine::datagram
