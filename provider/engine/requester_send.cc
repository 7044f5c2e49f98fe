// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Requester, outward: from the send queue to request packets.
#include <algorithm>
#include <cstring>

#include "provider/engine/requester.h"
#include "provider/engine/unreliable_pace.h"

namespace uroce::engine::requester {

namespace {

using wire::Opcode;

constexpr uint32_t kReadChunkBytes = 64 << 10;     // of a READ asked for by one request packet
constexpr uint32_t kAcknowledgeBytes = 256 << 10;  // at most this much without asking for an acknowledgement

bool is_local(WrOpcode opcode) {
  return opcode == WrOpcode::local_invalidate || opcode == WrOpcode::bind_window;
}

bool is_send(WrOpcode opcode) {
  return opcode == WrOpcode::send || opcode == WrOpcode::send_imm || opcode == WrOpcode::send_invalidate;
}

uint8_t opcode_base(const Qp& qp) {
  switch (qp.service) {
    case wire::Service::uc: return static_cast<uint8_t>(Opcode::uc_send_first);
    case wire::Service::xrc: return static_cast<uint8_t>(Opcode::xrc_base);
    default: return 0;
  }
}

// The RC number; UC and XRC repeat the same order behind their base.
Opcode message_opcode(WrOpcode kind, bool first, bool last) {
  const bool send = is_send(kind);
  if (!last) {
    if (first) return send ? Opcode::rc_send_first : Opcode::rc_write_first;
    return send ? Opcode::rc_send_middle : Opcode::rc_write_middle;
  }
  switch (kind) {
    case WrOpcode::send_imm: return first ? Opcode::rc_send_only_imm : Opcode::rc_send_last_imm;
    case WrOpcode::send_invalidate:
      return first ? Opcode::rc_send_only_invalidate : Opcode::rc_send_last_invalidate;
    case WrOpcode::write: return first ? Opcode::rc_write_only : Opcode::rc_write_last;
    case WrOpcode::write_imm: return first ? Opcode::rc_write_only_imm : Opcode::rc_write_last_imm;
    default: return first ? Opcode::rc_send_only : Opcode::rc_send_last;
  }
}

// ---- beginning a request ------------------------------------------------------------------------

uint32_t packets_of(const SendWqe& wqe, uint32_t mtu) {
  if (is_local(wqe.opcode)) return 0;
  if (is_read_like(wqe.opcode) && wqe.opcode != WrOpcode::read) return 1;
  return wqe.length == 0 ? 1 : (wqe.length - 1) / mtu + 1;
}

// A long READ is asked for in several request packets: the answers to one must fit the window, which guards
// our own receive buffer, and a repeated request must lie within one that was made before.
uint32_t read_chunk(const Qp& qp) {
  const uint32_t fits = qp.destination->window() / 2 / charge_of(qp.mtu);
  return std::clamp(fits, 1u, kReadChunkBytes / qp.mtu);
}

void run_local(Core& core, Qp& qp, Time now, SendWqe& wqe) {
  if (wqe.opcode == WrOpcode::bind_window) {
    const SendWqe::Bind& b = wqe.bind;
    if (core.regions.bind_window(qp.config.pd, qp.config.qpn,
                                 {b.window_rkey, b.new_rkey, b.region_lkey, b.va, b.length, b.access})) {
      qp.bound_windows = true;
      return;
    }
    fail_request(core, qp, now, qp.req.begun - 1, WcStatus::memory_window_bind_error,
                 VendorError::bind_refused);
  } else if (!core.regions.invalidate(wqe.imm_be, qp.config.pd, qp.config.qpn)) {
    fail_request(core, qp, now, qp.req.begun - 1, WcStatus::memory_window_bind_error,
                 VendorError::invalidate_refused);
  }
}

// Takes the next posted request over. False: there is none, or it has to wait.
bool begin_next(Core& core, Qp& qp, Time now) {
  RequesterState& req = qp.req;
  if (qp.current() != QpState::rts || qp.send_queue.ring().tail() == req.begun) return false;
  SendWqe& wqe = qp.send_queue.at(req.begun);
  // IBA 10.8.3.3: behind a fence nothing starts before all READs and atomics are done.
  if (wqe.fence && req.reads_in_flight != 0) return false;
  wqe.first_psn = req.next_psn;
  wqe.packets = packets_of(wqe, qp.mtu);
  wqe.done_packets = 0;
  wqe.chunk = wqe.opcode == WrOpcode::read ? read_chunk(qp) : 1;
  ++req.begun;
  if (is_read_like(wqe.opcode) && qp.attributes.max_rd_atomic == 0) {
    fail_request(core, qp, now, req.begun - 1, WcStatus::local_qp_operation_error,
                 VendorError::no_read_depth);
  } else if (wqe.packets == 0) {
    run_local(core, qp, now, wqe);
  }
  return true;
}

// ---- one packet ---------------------------------------------------------------------------------

// Copies `bytes` of the message at `offset` to `out`. Packets follow each other, so the place in the list is
// remembered.
CopyResult gather(Core& core, Qp& qp, const SendWqe& wqe, uint32_t offset, std::byte* out, size_t bytes) {
  if (wqe.inline_data) {
    std::memcpy(out, wqe.inline_bytes() + offset, bytes);
    return CopyResult::ok;
  }
  RequesterState& req = qp.req;
  if (!req.gather_valid || req.gather_index != req.cursor || req.gather_offset != offset) {
    req.gather_sge = 0;
    req.gather_in_sge = offset;
    while (req.gather_sge < wqe.num_sge && req.gather_in_sge >= wqe.sges()[req.gather_sge].length) {
      req.gather_in_sge -= wqe.sges()[req.gather_sge++].length;
    }
  }
  req.gather_valid = false;
  while (bytes != 0) {
    const SgEntry& sge = wqe.sges()[req.gather_sge];
    const size_t piece = std::min<size_t>(bytes, sge.length - req.gather_in_sge);
    MappedRange range;
    if (core.regions.check_local(sge.lkey, qp.config.pd, 0, sge.va + req.gather_in_sge, piece, range) !=
        KeyCheck::ok) {
      return CopyResult::bad_key;
    }
    if (range.null) {
      std::memset(out, 0, piece);
    } else if (!core.memory.read(out, range.host_va, piece)) {
      ++core.counters.memory_faults;
      return CopyResult::fault;
    }
    out += piece;
    bytes -= piece;
    offset += static_cast<uint32_t>(piece);
    req.gather_in_sge += static_cast<uint32_t>(piece);
    if (req.gather_in_sge == sge.length) req.gather_in_sge = 0, ++req.gather_sge;
  }
  req.gather_index = req.cursor;
  req.gather_offset = offset;
  req.gather_valid = true;
  return CopyResult::ok;
}

// What one packet is, before it is written. One serves a whole turn: clearing all of it for each packet costs
// as much as writing the packet's headers.
struct Plan {
  wire::Packet packet;
  uint32_t offset = 0;  // of its payload in the message
  uint32_t payload = 0;
  uint32_t psns = 1;  // how many it takes
};

void plan_message(const Qp& qp, const SendWqe& wqe, uint32_t index, Plan& plan) {
  const bool first = index == 0;
  const bool last = index + 1 == wqe.packets;
  wire::Packet& p = plan.packet;
  p.bth.opcode = message_opcode(wqe.opcode, first, last);
  p.bth.solicited = last && wqe.solicited;
  plan.offset = index * qp.mtu;
  plan.payload = std::min(qp.mtu, wqe.length - plan.offset);
  p.imm_be = wqe.imm_be;
  p.invalidate_rkey = wqe.imm_be;
  p.reth = {wqe.remote_va, wqe.rkey, wqe.length};
}

void plan_read(const Qp& qp, const SendWqe& wqe, uint32_t index, Plan& plan) {
  wire::Packet& p = plan.packet;
  p.bth.opcode = Opcode::rc_read_request;
  // To the end of its chunk: what an earlier request asked for, or the rest of it.
  const uint32_t end = std::min((index / wqe.chunk + 1) * wqe.chunk, wqe.packets);
  const uint32_t from = index * qp.mtu;
  const uint64_t to = std::min<uint64_t>(static_cast<uint64_t>(end) * qp.mtu, wqe.length);
  p.reth = {wqe.remote_va + from, wqe.rkey, static_cast<uint32_t>(to - from)};
  plan.psns = end - index;
}

void make_plan(const Qp& qp, const SendWqe& wqe, Plan& plan) {
  const auto index = static_cast<uint32_t>(qp.req.send_psn.distance_from(wqe.first_psn));
  wire::Packet& p = plan.packet;
  p.bth.dest_qpn = qp.attributes.dest_qpn;
  p.bth.psn = qp.req.send_psn;
  p.bth.solicited = false;
  p.xrc_srqn = wqe.xrc_srqn;
  plan.payload = 0;
  plan.psns = 1;
  switch (wqe.opcode) {
    case WrOpcode::read: plan_read(qp, wqe, index, plan); break;
    case WrOpcode::compare_swap:
    case WrOpcode::fetch_add:
      p.bth.opcode = wqe.opcode == WrOpcode::fetch_add ? Opcode::rc_fetch_add : Opcode::rc_compare_swap;
      p.atomic = {wqe.remote_va, wqe.rkey, wqe.atomic.swap_or_add, wqe.atomic.compare};
      break;
    case WrOpcode::atomic_write:
      p.bth.opcode = Opcode::rc_atomic_write;
      p.reth = {wqe.remote_va, wqe.rkey, 8};
      plan.payload = 8;
      break;
    case WrOpcode::flush:
      p.bth.opcode = Opcode::rc_flush;
      p.reth = {wqe.remote_va, wqe.rkey, wqe.flush.length};
      p.feth = {wqe.flush.placement, wqe.flush.selectivity};
      break;
    default: plan_message(qp, wqe, index, plan); break;
  }
  p.bth.opcode = static_cast<Opcode>(static_cast<uint8_t>(p.bth.opcode) + opcode_base(qp));
  p.bth.pad = wire::pad_for(plan.payload);
}

// Writes payload and pad at `out`.
CopyResult write_payload(Core& core, Qp& qp, const SendWqe& wqe, const Plan& plan, std::byte* out) {
  CopyResult result = CopyResult::ok;
  if (wqe.opcode == WrOpcode::atomic_write) {
    std::memcpy(out, &wqe.atomic.swap_or_add, 8);
  } else if (plan.payload != 0) {
    result = gather(core, qp, wqe, plan.offset, out, plan.payload);
  }
  std::memset(out + plan.payload, 0, plan.packet.bth.pad);
  return result;
}

// ---- may it leave? ------------------------------------------------------------------------------

bool may_leave(Core& core, Qp& qp, Time now, const SendWqe& wqe, const Plan& plan) {
  RequesterState& req = qp.req;
  if (!qp.reliable()) return unreliable_pace::may_send(core, qp, now);
  if (req.probe == RequesterState::Probe::wait) return false;
  if (is_read_like(wqe.opcode) && req.reads_in_flight >= qp.attributes.max_rd_atomic) return false;
  if (req.probe == RequesterState::Probe::send) return true;
  Destination& destination = *qp.destination;
  if (destination.in_flight() == 0) destination.on_begin(now);
  if (destination.admits(plan.psns * charge_of(qp.mtu), req.charged == 0)) return true;
  destination.waiting.push_back(qp);
  return false;
}

// Ask for an acknowledgement where nothing behind this packet will: at the end of what is posted, when the
// window closes, and often enough in between to keep it open. Asking for every message would cost an answer
// for each.
bool asks_for_acknowledgement(const Qp& qp, const Plan& plan) {
  const RequesterState& req = qp.req;
  if (!qp.reliable()) return false;
  const uint32_t charge = charge_of(qp.mtu);
  const uint32_t unasked = (req.unasked + 2) * charge;  // if neither this one nor the next asks
  if (req.probe != RequesterState::Probe::none) return true;
  if (unasked > kAcknowledgeBytes || 3 * unasked > qp.destination->window()) return true;
  if (!qp.destination->admits(2 * charge, false)) return true;
  const SendWqe& wqe = qp.send_queue.at(req.cursor);
  if (plan.packet.bth.psn + 1 != wqe.end_psn()) return false;
  const uint32_t next = req.cursor + 1;
  if (next == qp.send_queue.ring().tail() || qp.current() != QpState::rts) return true;
  const SendWqe& behind = qp.send_queue.at(next);
  return is_local(behind.opcode) || behind.fence;
}

void account(Core& core, Qp& qp, Time now, const SendWqe& wqe, const Plan& plan) {
  RequesterState& req = qp.req;
  ++core.counters.sent_pkts;
  const bool fresh = plan.packet.bth.psn == req.next_psn;
  if (fresh && req.una == req.next_psn) req.last_progress = now;
  req.send_psn = req.send_psn + plan.psns;
  if (req.send_psn.after(req.next_psn)) req.next_psn = req.send_psn;
  if (!fresh) ++core.counters.retransmitted_pkts;
  if (fresh && plan.packet.bth.psn == wqe.first_psn && is_send(wqe.opcode)) ++core.counters.rdma_sends;
  if (!qp.reliable()) {
    req.una = req.send_psn;
    unreliable_pace::sent(core, qp, plan.payload);
    return;
  }
  if (is_read_like(wqe.opcode)) ++req.reads_in_flight;
  const bool answered = plan.packet.bth.ack_request || is_read_like(wqe.opcode);
  req.unasked = answered ? 0 : req.unasked + 1;
  if (fresh && answered && !req.timing) {
    req.timing = true;
    req.timed_psn = plan.packet.bth.psn;
    req.timed_at = now;
  }
  if (req.probe == RequesterState::Probe::send) req.probe = RequesterState::Probe::wait;
  update_charge(core, qp);
  if (qp.retransmit_at == kNever) arm_retransmission(core, qp, now);
}

// Writes and commits the packet at the cursor. False: no room, or the data could not be read (then the
// request has failed).
enum class Sent : uint8_t { yes, no_room, failed };
Sent send_packet(Core& core, Qp& qp, Time now, const SendWqe& wqe, Plan& plan, TxBatch& batch) {
  const size_t bytes =
      wire::opcode_info(plan.packet.bth.opcode).header_bytes + plan.payload + plan.packet.bth.pad;
  std::byte* out = batch.reserve(bytes);
  if (out == nullptr) return Sent::no_room;
  plan.packet.bth.ack_request = asks_for_acknowledgement(qp, plan);
  const size_t headers = wire::write_headers(plan.packet, out);
  const CopyResult copied = write_payload(core, qp, wqe, plan, out + headers);
  if (copied != CopyResult::ok) {
    const VendorError reason =
        copied == CopyResult::fault ? VendorError::local_fault : VendorError::local_key;
    fail_request(core, qp, now, qp.req.cursor, WcStatus::local_protection_error, reason);
    return Sent::failed;
  }
  batch.commit(qp.attributes.path, qp.attributes.dest_qpn, bytes);
  account(core, qp, now, wqe, plan);
  return Sent::yes;
}

}  // namespace

bool is_read_like(WrOpcode opcode) {
  return opcode == WrOpcode::read || opcode == WrOpcode::compare_swap || opcode == WrOpcode::fetch_add ||
         opcode == WrOpcode::flush || opcode == WrOpcode::atomic_write;
}

Turn transmit(Core& core, Qp& qp, Time now, TxBatch& batch, int64_t& quantum) {
  RequesterState& req = qp.req;
  Plan plan;
  while (true) {
    if (req.rnr_waiting || (req.failing && req.cursor == req.failing_index)) return Turn::idle;
    if (req.cursor == req.begun && !begin_next(core, qp, now)) return Turn::idle;
    const QpState state = qp.current();
    if (state != QpState::rts && state != QpState::sqd)
      return Turn::idle;  // the request failed at its beginning
    if (req.failing && req.cursor == req.failing_index) return Turn::idle;
    const SendWqe& wqe = qp.send_queue.at(req.cursor);
    if (wqe.lies_before(req.send_psn)) {  // all sent, or a local operation
      ++req.cursor;
      retire(core, qp, now);
      continue;
    }
    if (quantum <= 0) return Turn::more;
    make_plan(qp, wqe, plan);
    if (!may_leave(core, qp, now, wqe, plan)) return Turn::idle;
    switch (send_packet(core, qp, now, wqe, plan, batch)) {
      case Sent::no_room: return Turn::batch_full;
      case Sent::failed: return Turn::idle;
      case Sent::yes: break;
    }
    quantum -= plan.payload + 64;
  }
}

}  // namespace uroce::engine::requester
