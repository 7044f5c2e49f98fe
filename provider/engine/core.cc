// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/core.h"

#include <algorithm>
#include <cstring>

#include "provider/engine/requester.h"
#include "provider/engine/responder.h"

namespace uroce::engine {

Core::Core(const EngineConfig& c, MemoryAccess& m)
    : config(c),
      memory(m),
      destinations(config),
      port_mtu_bytes(bytes_of(c.port_mtu)),
      qps(size_t{1} << wire::Qpn::kIndexBits) {}

size_t Core::GidHash::operator()(const wire::Gid& gid) const {
  uint64_t high;
  uint64_t low;
  std::memcpy(&high, gid.raw.data(), 8);
  std::memcpy(&low, gid.raw.data() + 8, 8);
  return static_cast<size_t>((high * 0x9e3779b97f4a7c15u) ^ low);
}

// An object has each of its events in the queue once: a CQ two kinds, an SRQ one, a QP as many as there are.
void Core::reserve_events() {
  events.reserve(2 * cqs.size() + srqs.size() + 8 * size_t{qp_count} + 16);
}

// ---- completions and events ---------------------------------------------------------------------

bool Core::complete(CompletionQueue* queue, const Completion& completion, bool solicited) {
  auto& cq = static_cast<CoreCq&>(*queue);
  bool notify = false;
  if (!cq.push(completion, solicited, notify)) {
    if (!cq.failed) {
      cq.failed = true;
      cq_failed = true;
      events.push({Event::Kind::async_cq, async_event::kCqError, cq.id(), cq.user_handle});
    }
    return false;
  }
  if (notify) {
    this->notify(cq);
  } else if (cq.held() == 1 && cq.moderation_ns != 0) {
    held_notifications.arm(cq, Time{static_cast<int64_t>(completion.timestamp_ns) + cq.moderation_ns});
  }
  return true;
}

void Core::notify(CoreCq& cq) {
  held_notifications.remove(cq);
  if (cq.notifications++ == 0) events.push({Event::Kind::completion, 0, cq.id(), cq.user_handle}, &cq);
}

void Core::release(CoreCq& cq) {
  held_notifications.remove(cq);
  if (cq.release()) notify(cq);
}

void Core::release_due(Time now) {
  while (CoreCq* cq = held_notifications.pop_due(now)) release(*cq);
}

void Core::raise(Qp& qp, uint32_t event) {
  if (event == kNoEvent || (qp.events_pending & (1u << event)) != 0) return;
  qp.events_pending |= 1u << event;
  events.push({Event::Kind::async_qp, event, qp.config.qpn.value(), qp.config.user_handle});
}

void Core::tell_state(Qp& qp) {
  if ((qp.events_pending & (1u << async_event::kStateChanged)) != 0) return;
  qp.events_pending |= 1u << async_event::kStateChanged;
  events.push({Event::Kind::qp_state, 0, qp.config.qpn.value(), qp.config.user_handle});
}

void Core::raise_srq_limit(SharedReceiveQueue::Impl& srq) {
  srq.limit.store(0, std::memory_order_relaxed);  // one shot
  if (srq.limit_pending) return;
  srq.limit_pending = true;
  events.push(
      {Event::Kind::async_srq, async_event::kSrqLimit, srq.config.srq_number, srq.config.user_handle});
}

bool Core::take_receive(Qp& qp, SharedReceiveQueue::Impl* srq) {
  ReceiveQueue& queue = srq != nullptr ? srq->queue : *qp.receive_queue;
  if (queue.empty()) return false;
  const RecvWqe& wqe = queue.front();
  TakenReceive& taken = qp.resp.receive;
  taken.taken = true;
  taken.wr_id = wqe.wr_id;
  taken.num_sge = wqe.num_sge;
  taken.bytes = 0;
  for (uint32_t i = 0; i < wqe.num_sge; ++i) {
    taken.sges[i] = wqe.sges()[i];
    taken.bytes += taken.sges[i].length;
  }
  const bool xrc = srq != nullptr && srq->config.xrc;
  taken.pd = srq != nullptr ? srq->config.pd : qp.config.pd;
  taken.cq = xrc ? srq->config.cq : qp.config.recv_cq;
  taken.srq_number = xrc ? srq->config.srq_number : 0;
  queue.pop();
  if (srq != nullptr) {
    queue.free_without_completion();  // its completions are in as many queues as it has users
    const uint32_t limit = srq->limit.load(std::memory_order_relaxed);
    if (limit != 0 && queue.waiting() < limit) raise_srq_limit(*srq);
  }
  return true;
}

bool Core::complete_receive(Qp& qp, Time now, const Completion& fields, bool solicited) {
  TakenReceive& taken = qp.resp.receive;
  Completion completion = fields;
  completion.wr_id = taken.wr_id;
  completion.qp_num = qp.config.qpn.value();
  completion.srq_number = taken.srq_number;
  completion.timestamp_ns = static_cast<uint64_t>(now.ns);
  if (qp.receive_queue) completion.polled = &qp.receive_queue->polled();
  taken.taken = false;
  if (complete(taken.cq, completion, solicited)) return true;
  if (qp.current() != QpState::error) cq_failed = true;
  return false;
}

static WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::send:
    case WrOpcode::send_imm:
    case WrOpcode::send_invalidate: return WcOpcode::send;
    case WrOpcode::write:
    case WrOpcode::write_imm: return WcOpcode::rdma_write;
    case WrOpcode::read: return WcOpcode::rdma_read;
    case WrOpcode::compare_swap: return WcOpcode::compare_swap;
    case WrOpcode::fetch_add: return WcOpcode::fetch_add;
    case WrOpcode::local_invalidate: return WcOpcode::local_invalidate;
    case WrOpcode::bind_window: return WcOpcode::bind_window;
    case WrOpcode::flush: return WcOpcode::flush;
    case WrOpcode::atomic_write: return WcOpcode::atomic_write;
  }
  return WcOpcode::send;
}

void Core::complete_head(Qp& qp, WcStatus status, VendorError reason, Time now) {
  const SendWqe& wqe = qp.send_queue.at(qp.req.head);
  const bool silent = status == WcStatus::success && !wqe.signaled && !qp.config.signal_all;
  Completion completion;
  completion.wr_id = wqe.wr_id;
  completion.status = status;
  completion.opcode = completion_opcode(wqe.opcode);
  completion.vendor_error = static_cast<uint32_t>(reason);
  completion.byte_len =
      wqe.opcode == WrOpcode::compare_swap || wqe.opcode == WrOpcode::fetch_add ? 8 : wqe.length;
  completion.qp_num = qp.config.qpn.value();
  completion.timestamp_ns = static_cast<uint64_t>(now.ns);
  qp.send_queue.ring().retire_to(++qp.req.head);
  if (silent) return qp.send_queue.ring().free_without_completion();
  completion.polled = &qp.send_queue.ring().polled();
  if (!complete(qp.config.send_cq, completion, false) && qp.current() != QpState::error) cq_failed = true;
}

// ---- states -------------------------------------------------------------------------------------

void Core::flush_send(Qp& qp, Time now) {
  if (!qp.has_requester()) return;
  RequesterState& req = qp.req;
  const uint32_t tail = qp.send_queue.ring().tail();
  while (req.head != tail) complete_head(qp, WcStatus::flush_error, VendorError::flushed, now);
  req.cursor = req.begun = tail;
}

void Core::flush_receive(Qp& qp, Time now) {
  Completion flushed;
  flushed.status = WcStatus::flush_error;
  flushed.opcode = WcOpcode::recv;
  flushed.vendor_error = static_cast<uint32_t>(VendorError::flushed);
  if (qp.resp.receive.taken) complete_receive(qp, now, flushed, true);
  if (!qp.receive_queue) return;
  while (take_receive(qp, nullptr)) complete_receive(qp, now, flushed, true);
}

void Core::leave_lists(Qp& qp) {
  ready.remove(qp);
  answers.remove(qp);
  if (qp.destination != nullptr) qp.destination->waiting.remove(qp);
  timers.remove(qp);
}

void Core::set_state(Qp& qp, QpState state, StateReason reason, Time now) {
  const QpState old = qp.current();
  qp.attributes.state = state;
  qp.reason = reason;
  qp.published_state.store(static_cast<uint8_t>(state), std::memory_order_seq_cst);
  if (reason != StateReason::modified) tell_state(qp);
  if (state == QpState::error && old != QpState::error) {
    requester::stop(*this, qp);
    // What was accepted before a refusal is still answered, and the refusal itself goes out behind it.
    if (!qp.resp.refused) responder::stop(*this, qp);
    flush_send(qp, now);
    flush_receive(qp, now);
    if (qp.config.srq != nullptr && old != QpState::reset) raise(qp, async_event::kLastWqe);
  } else if (state == QpState::sqe) {
    requester::stop(*this, qp);
    flush_send(qp, now);
  } else if (state == QpState::reset) {
    requester::stop(*this, qp);
    responder::stop(*this, qp);
    leave_lists(qp);
    qp.retransmit_at = qp.rnr_at = qp.ack_at = qp.pace_until = kNever;
    for (CompletionQueue* cq : {qp.config.send_cq, qp.config.recv_cq}) {
      if (cq != nullptr) cq->purge(qp.config.qpn.value());
    }
    if (qp.has_requester()) qp.send_queue.ring().drop_all();
    if (qp.receive_queue) qp.receive_queue->drop_all();
    qp.req = {};
    qp.req.head = qp.req.cursor = qp.req.begun = qp.send_queue.ring().tail();
    qp.resp = {};
    destinations.release(qp.destination);
    qp.destination = nullptr;
    qp.sq_drained = true;
  }
}

void Core::fail(Qp& qp, StateReason reason, uint32_t event, Time now) {
  if (qp.current() == QpState::error) return;
  raise(qp, event);
  set_state(qp, QpState::error, reason, now);
}

void Core::settle(Time now) {
  while (cq_failed) {
    cq_failed = false;
    const auto broken = [](CompletionQueue* cq) { return cq != nullptr && static_cast<CoreCq*>(cq)->failed; };
    for (auto& qp : qps) {
      if (qp == nullptr || qp->current() == QpState::reset) continue;
      if (broken(qp->config.send_cq) || broken(qp->config.recv_cq)) {
        fail(*qp, StateReason::completion_queue, async_event::kQpFatal, now);
      }
    }
  }
}

// ---- posted work --------------------------------------------------------------------------------

void Core::ring(Qp& qp) {
  // Already in the list: whoever empties it clears the mark before looking at the rings, so our post is seen.
  if (qp.rung.exchange(true, std::memory_order_acq_rel)) return;
  Qp* first = rung.load(std::memory_order_relaxed);
  do {
    qp.next_rung = first;
  } while (!rung.compare_exchange_weak(first, &qp, std::memory_order_release, std::memory_order_relaxed));
}

void Core::take_rings(Time now) {
  if (rung.load(std::memory_order_relaxed) == nullptr) return;
  Qp* newest = rung.exchange(nullptr, std::memory_order_acquire);
  Qp* oldest = nullptr;
  while (newest != nullptr) {  // the list is last in, first out; turn it round
    Qp* next = newest->next_rung;
    newest->next_rung = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Qp& qp = *oldest;
    oldest = qp.next_rung;
    qp.next_rung = nullptr;
    qp.rung.exchange(false, std::memory_order_acq_rel);
    switch (qp.current()) {
      case QpState::rts:
        if (qp.has_requester() && qp.send_queue.ring().tail() != qp.req.begun) schedule(qp);
        break;
      case QpState::error:
        flush_send(qp, now);
        flush_receive(qp, now);
        break;
      case QpState::sqe: flush_send(qp, now); break;
      default: break;
    }
  }
}

// ---- memory -------------------------------------------------------------------------------------

CopyResult scatter(Core& core, uint32_t pd, const SgEntry* sges, uint32_t num_sge, uint64_t offset,
                   const std::byte* data, size_t bytes) {
  uint32_t i = 0;
  while (i < num_sge && offset >= sges[i].length) offset -= sges[i++].length;
  while (bytes != 0) {
    if (i == num_sge) return CopyResult::too_long;
    const size_t piece = std::min<uint64_t>(bytes, sges[i].length - offset);
    if (piece != 0) {
      MappedRange range;
      const KeyCheck check =
          core.regions.check_local(sges[i].lkey, pd, Access::local_write, sges[i].va + offset, piece, range);
      if (check != KeyCheck::ok) return CopyResult::bad_key;
      if (!range.null && !core.memory.write(range.host_va, data, piece)) {
        ++core.counters.memory_faults;
        return CopyResult::fault;
      }
      data += piece;
      bytes -= piece;
    }
    offset = 0;
    ++i;
  }
  return CopyResult::ok;
}

}  // namespace uroce::engine
