// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Responder: READ, atomic, FLUSH and atomic write. What was accepted is kept in a ring of max_dest_rd_atomic,
// answered in the order of its PSNs, and answered again when the requester repeats it (IBA 9.7.5.1.5).
#include <algorithm>
#include <cstring>

#include "provider/engine/responder.h"

namespace uroce::engine::responder {

namespace {

using wire::Opcode;
using wire::OpcodeInfo;
using Kind = ResponderResource::Kind;

constexpr uint32_t kUnpacedBytes = 128 << 10;

ResponderResource& at(ResponderState& resp, uint32_t number) {
  return resp.resources[number & (resp.resource_slots - 1)];
}

uint32_t response_packets(uint32_t bytes, uint32_t mtu) {
  return bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
}

Opcode rc_opcode(const wire::Packet& packet) {
  return static_cast<Opcode>(static_cast<uint8_t>(packet.bth.opcode) & 0x1f);
}

void activate(Core& core, Qp& qp, ResponderResource& resource) {
  if (!resource.active) ++qp.resp.active;
  resource.active = true;
  core.schedule(qp);
}

void end_answer(Qp& qp, ResponderResource& resource) {
  resource.active = false;
  resource.answered = true;
  --qp.resp.active;
}

Outcome check_range(Core& core, const Qp& qp, uint32_t pd, const wire::Reth& reth, uint32_t needed,
                    MappedRange& range) {
  if (reth.length == 0) return Outcome::ok;
  const KeyCheck check =
      core.regions.check_remote(reth.rkey, pd, qp.config.qpn, needed, reth.va, reth.length, range);
  return check == KeyCheck::ok ? Outcome::ok : Outcome::access;
}

Outcome accept_read(Core& core, Qp& qp, const wire::Packet& packet, ResponderResource& resource) {
  const wire::Reth& reth = packet.reth;
  if (reth.length > kMaxMessage) return Outcome::invalid_request;
  MappedRange range;
  const Outcome outcome = check_range(core, qp, qp.target_domain(), reth, Access::remote_read, range);
  if (outcome != Outcome::ok) return outcome;
  resource.kind = Kind::read;
  resource.packets = response_packets(reth.length, qp.mtu);
  resource.send_psn = resource.first;
  resource.va = reth.va;
  resource.rkey = reth.rkey;
  resource.pd = qp.target_domain();
  resource.left = reth.length;
  resource.begin = true;
  resource.paced = reth.length > kUnpacedBytes;
  return Outcome::ok;
}

Outcome execute_atomic(Core& core, Qp& qp, const wire::Packet& packet, ResponderResource& resource) {
  const wire::AtomicEth& eth = packet.atomic;
  if ((eth.va & 7) != 0) return Outcome::invalid_request;  // IBA 9.7.4.1.7
  MappedRange range;
  if (core.regions.check_remote(eth.rkey, qp.target_domain(), qp.config.qpn, Access::remote_atomic, eth.va, 8,
                                range) != KeyCheck::ok) {
    return Outcome::access;
  }
  resource.kind = Kind::atomic;
  resource.original = 0;
  if (range.null) return Outcome::ok;
  if ((range.host_va & 7) != 0) return Outcome::invalid_request;
  const bool done =
      rc_opcode(packet) == Opcode::rc_fetch_add
          ? core.memory.fetch_add(range.host_va, eth.swap_or_add, resource.original)
          : core.memory.compare_swap(range.host_va, eth.compare, eth.swap_or_add, resource.original);
  if (!done) ++core.counters.memory_faults;
  return done ? Outcome::ok : Outcome::access;
}

Outcome execute_atomic_write(Core& core, Qp& qp, const wire::Packet& packet, ResponderResource& resource) {
  if (packet.payload.size() != 8 || packet.reth.length != 8 || (packet.reth.va & 7) != 0)
    return Outcome::invalid_request;
  MappedRange range;
  const Outcome outcome = check_range(core, qp, qp.target_domain(), packet.reth, Access::remote_write, range);
  if (outcome != Outcome::ok) return outcome;
  resource.kind = Kind::acknowledge;
  if (range.null) return Outcome::ok;
  if (!core.memory.write(range.host_va, packet.payload.data(), 8)) {
    ++core.counters.memory_faults;
    return Outcome::access;
  }
  return Outcome::ok;
}

// Stores are visible to every CPU when they are done, and persistence is that of the memory; what remains is
// to check the rights.
Outcome execute_flush(Core& core, Qp& qp, const wire::Packet& packet, ResponderResource& resource) {
  constexpr uint8_t kWholeRegion = 1;
  uint32_t needed = 0;
  if ((packet.feth.placement & 1) != 0) needed |= Access::flush_global;
  if ((packet.feth.placement & 2) != 0) needed |= Access::flush_persistent;
  wire::Reth reth = packet.reth;
  if (packet.feth.selectivity > kWholeRegion || needed == 0) return Outcome::invalid_request;
  if (packet.feth.selectivity == kWholeRegion) {
    uint64_t bytes = 0;
    if (!core.regions.region_range(reth.rkey, reth.va, bytes)) return Outcome::access;
    reth.length = static_cast<uint32_t>(std::min<uint64_t>(bytes, kMaxMessage));
  }
  MappedRange range;
  const Outcome outcome = check_range(core, qp, qp.target_domain(), reth, needed, range);
  if (outcome == Outcome::ok) resource.kind = Kind::acknowledge;
  return outcome;
}

// Headers common to all answers.
wire::Packet answer(const Qp& qp, Opcode rc, wire::Psn psn, uint32_t msn) {
  wire::Packet packet;
  const uint8_t base = qp.service == wire::Service::xrc ? static_cast<uint8_t>(Opcode::xrc_base) : 0;
  packet.bth.opcode = static_cast<Opcode>(static_cast<uint8_t>(rc) + base);
  packet.bth.dest_qpn = qp.attributes.dest_qpn;
  packet.bth.psn = psn;
  packet.aeth = {wire::AethKind::ack, 31, msn};
  return packet;
}

// The memory went away under a READ that was accepted.
void read_failed(Core& core, Qp& qp, Time now, const ResponderResource& resource) {
  for (uint32_t i = 0; i < qp.resp.resource_slots; ++i) qp.resp.resources[i].active = false;
  qp.resp.active = 0;
  const wire::Psn psn = resource.send_psn;
  if (qp.current() == QpState::error) return;
  refuse(core, qp, now, wire::NakCode::remote_access, psn);
}

enum class Sent : uint8_t { yes, no_room, failed };

Sent send_read_response(Core& core, Qp& qp, Time now, ResponderResource& resource, TxBatch& batch,
                        int64_t& quantum) {
  const uint32_t payload = std::min(resource.left, qp.mtu);
  const bool last = resource.left <= qp.mtu;
  const Opcode opcode = resource.begin
                            ? (last ? Opcode::rc_read_response_only : Opcode::rc_read_response_first)
                            : (last ? Opcode::rc_read_response_last : Opcode::rc_read_response_middle);
  wire::Packet packet = answer(qp, opcode, resource.send_psn, resource.msn);
  packet.bth.pad = wire::pad_for(payload);
  const size_t bytes = packet.info().header_bytes + payload + packet.bth.pad;
  std::byte* out = batch.reserve(bytes);
  if (out == nullptr) return Sent::no_room;
  std::byte* data = out + wire::write_headers(packet, out);
  if (payload != 0) {
    MappedRange range;
    if (core.regions.check_remote(resource.rkey, resource.pd, qp.config.qpn, Access::remote_read, resource.va,
                                  payload, range) != KeyCheck::ok) {
      read_failed(core, qp, now, resource);
      return Sent::failed;
    }
    if (range.null) {
      std::memset(data, 0, payload);
    } else if (!core.memory.read(data, range.host_va, payload)) {
      ++core.counters.memory_faults;
      read_failed(core, qp, now, resource);
      return Sent::failed;
    }
  }
  std::memset(data + payload, 0, packet.bth.pad);
  batch.commit(qp.attributes.path, qp.attributes.dest_qpn, bytes);
  ++core.counters.sent_pkts;
  quantum -= payload + 64;
  resource.begin = false;
  resource.va += payload;
  resource.left -= payload;
  ++resource.send_psn;
  if (last) end_answer(qp, resource);
  return Sent::yes;
}

Sent send_short_response(Core& core, Qp& qp, ResponderResource& resource, TxBatch& batch) {
  const bool atomic = resource.kind == Kind::atomic;
  const Opcode opcode = atomic ? Opcode::rc_atomic_acknowledge : Opcode::rc_read_response_only;
  wire::Packet packet = answer(qp, opcode, resource.first, resource.msn);
  packet.atomic_original = resource.original;
  const size_t bytes = packet.info().header_bytes;
  std::byte* out = batch.reserve(bytes);
  if (out == nullptr) return Sent::no_room;
  wire::write_headers(packet, out);
  batch.commit(qp.attributes.path, qp.attributes.dest_qpn, bytes);
  ++core.counters.sent_pkts;
  end_answer(qp, resource);
  return Sent::yes;
}

// A long answer leaves at about one window a round trip: nothing tells us how much of it the peer's buffer
// has taken. Our own requesters ask in pieces and are not slowed down.
bool pace(Core& core, Qp& qp, Time now, const ResponderResource& resource) {
  ResponderState& resp = qp.resp;
  if (!resource.paced) return true;
  const int64_t window = std::max(qp.destination->window(), core.config.start_window_bytes);
  const int64_t round_trip = qp.destination->round_trip_ns();
  const int64_t earned = std::min(now - resp.pace_at, round_trip) * window / round_trip;
  if (earned > 0) {
    resp.pace_at = now;
    resp.pace_tokens = std::min(resp.pace_tokens + earned, window);
  }
  if (resp.pace_tokens > 0) return true;
  qp.pace_until = now + std::max<int64_t>(round_trip / 4, 1000);
  core.update_timer(qp);
  return false;
}

}  // namespace

Outcome accept_resource(Core& core, Qp& qp, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  // No resources, or more requests at once than were agreed (IBA 9.7.4.1.5).
  if (resp.resource_count == 0) return Outcome::invalid_request;
  ResponderResource& oldest = at(resp, resp.newest - resp.resource_count);
  if (oldest.active) {
    if (!oldest.answered) return Outcome::invalid_request;
    // Only a repetition is being answered, and who sends one more request has had the answer.
    oldest.active = false;
    --resp.active;
  }
  ResponderResource resource;
  resource.first = packet.bth.psn;
  resource.packets = 1;
  resource.msn = (resp.msn + 1) & 0xffffff;
  Outcome outcome = Outcome::ok;
  switch (rc_opcode(packet)) {
    case Opcode::rc_read_request: outcome = accept_read(core, qp, packet, resource); break;
    case Opcode::rc_atomic_write: outcome = execute_atomic_write(core, qp, packet, resource); break;
    case Opcode::rc_flush: outcome = execute_flush(core, qp, packet, resource); break;
    default: outcome = execute_atomic(core, qp, packet, resource); break;
  }
  if (outcome != Outcome::ok) return outcome;
  resp.msn = resource.msn;
  resp.expected = resource.first + resource.packets;
  ResponderResource& slot = at(resp, resp.newest++);
  slot = resource;
  activate(core, qp, slot);
  return Outcome::ok;
}

void on_duplicate_resource(Core& core, Qp& qp, const wire::Packet& packet) {
  ResponderState& resp = qp.resp;
  const wire::Psn psn = packet.bth.psn;
  for (uint32_t back = 1; back <= resp.resource_count; ++back) {
    const uint32_t number = resp.newest - back;
    ResponderResource& resource = at(resp, number);
    if (resource.kind == Kind::none) return;
    if (psn.before(resource.first)) continue;
    if ((psn - resource.first.value()).value() >= resource.packets)
      return;  // between two of them: not a repetition
    const bool read = rc_opcode(packet) == Opcode::rc_read_request;
    if (read != (resource.kind == Kind::read)) return;
    if (read) {
      // Answered from memory anew; it must lie within what was asked before, or it would run into later PSNs.
      const wire::Reth& reth = packet.reth;
      if (reth.length > kMaxMessage) return;
      const auto skipped = static_cast<uint32_t>(psn.distance_from(resource.first));
      if (response_packets(reth.length, qp.mtu) > resource.packets - skipped) return;
      MappedRange range;
      if (check_range(core, qp, resource.pd, reth, Access::remote_read, range) != Outcome::ok) return;
      resource.send_psn = psn;
      resource.va = reth.va;
      resource.rkey = reth.rkey;
      resource.left = reth.length;
      resource.begin = true;
      resource.paced = reth.length > kUnpacedBytes;
    }
    if (static_cast<int32_t>(number - resp.answering) < 0) resp.answering = number;
    activate(core, qp, resource);
    return;
  }
}

Turn transmit(Core& core, Qp& qp, Time now, TxBatch& batch, int64_t& quantum) {
  ResponderState& resp = qp.resp;
  if (qp.pace_until != kNever) return Turn::idle;
  while (resp.active != 0) {
    if (resp.newest - resp.answering > resp.resource_count)
      resp.answering = resp.newest - resp.resource_count;
    ResponderResource& resource = at(resp, resp.answering);
    if (!resource.active) {
      ++resp.answering;
      continue;
    }
    if (quantum <= 0) return Turn::more;
    Sent sent;
    if (resource.kind == Kind::read) {
      if (!pace(core, qp, now, resource)) return Turn::idle;
      const int64_t before = quantum;
      sent = send_read_response(core, qp, now, resource, batch, quantum);
      if (resource.paced) resp.pace_tokens -= before - quantum;
    } else {
      sent = send_short_response(core, qp, resource, batch);
    }
    if (sent == Sent::no_room) return Turn::batch_full;
    if (sent == Sent::failed) return Turn::idle;
  }
  return Turn::idle;
}

}  // namespace uroce::engine::responder
