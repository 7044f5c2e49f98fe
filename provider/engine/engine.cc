// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Engine's data path: which part gets a packet, whose turn it is to send, which timers are due.
#include "provider/engine/engine.h"

#include <algorithm>

#include "provider/engine/datagram.h"
#include "provider/engine/engine_impl.h"
#include "provider/engine/requester.h"
#include "provider/engine/responder.h"

namespace uroce::engine {

namespace {

// A queue pair's turn at the batch: about one segmented datagram.
constexpr int64_t kQuantumBytes = 64 << 10;

bool states_take_requests(QpState state) {
  return state == QpState::rtr || state == QpState::rts || state == QpState::sqd || state == QpState::sqe;
}

// Connected services take packets of their peer only.
bool is_from_peer(const Qp& qp, const RxMeta& meta) {
  if (qp.attributes.peer.is_zero()) return true;
  return meta.source == qp.attributes.peer && meta.destination == qp.attributes.local;
}

void on_connected(Core& core, Qp& qp, Time now, const wire::Packet& packet, const RxMeta& meta) {
  const wire::OpcodeInfo& info = packet.info();
  const QpState state = qp.current();
  // A refused request that is repeated gets its NAK again: the first may have been lost.
  const bool repeat_refusal = state == QpState::error && qp.resp.refused;
  if (!states_take_requests(state) && !repeat_refusal) return core.drop(PacketDrop::wrong_state);
  if (!is_from_peer(qp, meta)) return core.drop(PacketDrop::wrong_source);
  if (meta.congestion_experienced()) responder::on_congestion_experienced(core, qp, now);
  if (info.has(wire::OpcodeInfo::response)) {
    if (!qp.has_requester() || !qp.reliable()) return core.drop(PacketDrop::wrong_service);
    if (state != QpState::rts && state != QpState::sqd) return core.drop(PacketDrop::wrong_state);
    return requester::on_response(core, qp, now, packet);
  }
  if (!qp.has_responder()) return core.drop(PacketDrop::wrong_service);
  if (state == QpState::rtr && !qp.resp.established) {
    qp.resp.established = true;
    core.raise(qp, async_event::kEstablished);
  }
  if (qp.config.type == QpType::uc) return responder::on_unreliable(core, qp, now, packet);
  responder::on_request(core, qp, now, packet);
}

void dispatch(Core& core, Time now, const wire::Packet& packet, size_t bytes, const RxMeta& meta) {
  const wire::Service service = packet.info().service;
  if ((packet.bth.pkey & 0x7fff) != (wire::kDefaultPkey & 0x7fff)) return core.drop(PacketDrop::bad_pkey);
  if (packet.bth.dest_qpn.value() == wire::Qpn::kMulticast) {
    if (service != wire::Service::ud) return core.drop(PacketDrop::wrong_service);
    return datagram::on_multicast(core, now, packet, bytes, meta);
  }
  Qp* qp = core.find(packet.bth.dest_qpn);
  if (qp == nullptr) return core.drop(PacketDrop::unknown_qp);
  if (service == wire::Service::cnp) {
    if (!qp->reliable()) return core.drop(PacketDrop::wrong_service);
    if (!is_from_peer(*qp, meta)) return core.drop(PacketDrop::wrong_source);
    return requester::on_congestion_notification(core, *qp, now);
  }
  if (service != qp->service) return core.drop(PacketDrop::wrong_service);
  if (service == wire::Service::ud) return datagram::on_packet(core, *qp, now, packet, bytes, meta);
  on_connected(core, *qp, now, packet, meta);
}

void run_timers(Core& core, Qp& qp, Time now) {
  if (qp.pace_until <= now) {
    qp.pace_until = kNever;
    core.schedule(qp);
  }
  if (qp.ack_at <= now) responder::on_timer(core, qp, now);
  if (qp.retransmit_at <= now || qp.rnr_at <= now) requester::on_timer(core, qp, now);
  core.update_timer(qp);
}

// It asked something of its peer just now, so it is likely to do it again at once, and an acknowledgement can
// ride behind.
bool converses(const Qp& qp, Time now) {
  constexpr int64_t kRecentlyNs = 5'000'000;
  return qp.has_requester() && qp.resp.due == ResponderState::Due::acknowledge &&
         now - qp.req.timed_at < kRecentlyNs;
}

// One queue pair's packets: answers that carry data first, then requests.
Turn serve(Core& core, Qp& qp, Time now, TxBatch& batch) {
  int64_t quantum = kQuantumBytes;
  if (qp.config.type == QpType::ud) return datagram::transmit(core, qp, now, batch, quantum);
  Turn turn = Turn::idle;
  if (qp.resp.active != 0) turn = responder::transmit(core, qp, now, batch, quantum);
  if (turn == Turn::batch_full) return turn;
  const QpState state = qp.current();
  if (!qp.has_requester() || (state != QpState::rts && state != QpState::sqd)) return turn;
  const Turn sent = requester::transmit(core, qp, now, batch, quantum);
  return sent == Turn::idle ? turn : sent;
}

}  // namespace

void Engine::on_packet(Time now, std::span<const std::byte> packet, const RxMeta& meta) {
  Core& core = impl_->core;
  ++core.counters.rcvd_pkts;
  wire::Packet& parsed = core.packet;
  if (wire::parse_packet(packet, parsed) != wire::ParseError::none) return core.drop(PacketDrop::parse_error);
  dispatch(core, now, parsed, packet.size(), meta);
  core.settle(now);
}

void Engine::ring(QueuePair* qp) {
  impl_->core.ring(qp->impl());
}
bool Engine::has_rings() const {
  return impl_->core.rung.load(std::memory_order_acquire) != nullptr;
}

void Engine::take_rings(Time now) {
  impl_->core.take_rings(now);
  impl_->core.settle(now);
}

void Engine::on_deadline(Time now) {
  Core& core = impl_->core;
  while (Qp* qp = core.timers.pop_due(now)) run_timers(core, *qp, now);
  core.release_due(now);
  core.settle(now);
}

void Engine::hold_acknowledgements(Time until) {
  impl_->core.acks_held_until = until;
}

bool Engine::poll_transmit(Time now, TxBatch& batch) {
  Core& core = impl_->core;
  while (Qp* qp = core.ready.pop_front()) {
    const size_t before = batch.bytes();
    const Turn turn = serve(core, *qp, now, batch);
    if (turn == Turn::batch_full) {
      core.ready.push_front(*qp);
      core.settle(now);
      return true;
    }
    if (turn == Turn::more) core.ready.push_back(*qp);
    // Behind the data of the same peer, an acknowledgement is the short last segment of one datagram.
    if (batch.bytes() != before && qp->resp.owes()) {
      if (responder::transmit_answer(core, *qp, now, batch)) {
        core.answers.remove(*qp);
      } else {
        core.answers.push_back(*qp);
      }
    }
  }
  core.settle(now);
  const bool hold = now < core.acks_held_until;
  const Qp* first_kept = nullptr;
  while (Qp* qp = core.answers.front()) {
    if (qp == first_kept) break;
    if (hold && converses(*qp, now)) {
      core.answers.remove(*qp);
      core.answers.push_back(*qp);
      if (first_kept == nullptr) first_kept = qp;
      continue;
    }
    if (!responder::transmit_answer(core, *qp, now, batch)) return true;
    core.answers.remove(*qp);
  }
  return false;
}

bool Engine::poll_event(Event& out) {
  Core& core = impl_->core;
  const EventQueue::Entry* next = core.events.front();
  if (next == nullptr) return false;
  out = next->event;
  if (next->cq != nullptr && --next->cq->notifications != 0) return true;  // fired again meanwhile
  core.events.pop();
  if (out.kind == Event::Kind::async_qp || out.kind == Event::Kind::qp_state) {
    const uint32_t event = out.kind == Event::Kind::qp_state ? async_event::kStateChanged : out.async;
    Qp* qp = core.find(wire::Qpn(out.id));
    if (qp != nullptr) qp->events_pending &= ~(1u << event);
    if (qp != nullptr && out.kind == Event::Kind::qp_state) out.async = static_cast<uint32_t>(qp->current());
  } else if (out.kind == Event::Kind::async_srq) {
    const auto srq = core.srqs.find(out.id);
    if (srq != core.srqs.end()) srq->second->limit_pending = false;
  }
  return true;
}

std::optional<Time> Engine::next_deadline() const {
  const Core& core = impl_->core;
  Time next = std::min(core.timers.next(), core.held_notifications.next());
  if (!core.answers.empty() && core.acks_held_until < next) next = core.acks_held_until;
  return next == kNever ? std::nullopt : std::optional<Time>(next);
}

const Counters& Engine::counters() const {
  return impl_->core.counters;
}
QueuePair* Engine::find_qp(wire::Qpn qpn) const {
  return impl_->core.find(qpn);
}

}  // namespace uroce::engine
