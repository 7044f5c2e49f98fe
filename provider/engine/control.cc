// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Engine's control calls: objects come, change and go.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "provider/engine/engine_impl.h"
#include "provider/engine/qp_transitions.h"
#include "provider/engine/requester.h"
#include "provider/engine/responder.h"

namespace uroce::engine {

Engine::Engine(const EngineConfig& config, MemoryAccess& memory)
    : impl_(std::make_unique<Impl>(config, memory)) {}
Engine::~Engine() = default;

// ---- completion queues --------------------------------------------------------------------------

int Engine::create_cq(uint32_t id, uint32_t capacity, bool ignore_overrun, uint64_t user_handle,
                      CompletionQueue*& out) {
  Core& core = impl_->core;
  if (capacity == 0 || capacity > (1u << 24)) return EINVAL;
  try {
    auto cq = std::make_unique<CoreCq>(id, capacity, ignore_overrun);
    cq->user_handle = user_handle;
    core.held_notifications.reserve(std::bit_ceil(core.cqs.size() + 1));
    core.cqs.push_back(std::move(cq));
    core.reserve_events();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  out = core.cqs.back().get();
  return 0;
}

void Engine::moderate_cq(CompletionQueue* queue, uint16_t count, uint16_t period_us) {
  auto& cq = static_cast<CoreCq&>(*queue);
  cq.moderate(count != 0 ? count : period_us != 0 ? UINT32_MAX : 1);
  cq.moderation_ns = int64_t{period_us} * 1000;
  impl_->core.release(cq);
}

int Engine::destroy_cq(CompletionQueue* cq) {
  Core& core = impl_->core;
  if (cq->users != 0) return EBUSY;
  core.held_notifications.remove(static_cast<CoreCq&>(*cq));
  const uint32_t id = cq->id();
  core.events.drop_if([id](const Event& event) {
    return event.id == id && (event.kind == Event::Kind::completion || event.kind == Event::Kind::async_cq);
  });
  const auto owned = [cq](const auto& entry) { return entry.get() == cq; };
  core.cqs.erase(std::find_if(core.cqs.begin(), core.cqs.end(), owned));
  return 0;
}

// ---- shared receive queues ----------------------------------------------------------------------

int Engine::create_srq(const SrqConfig& config, SharedReceiveQueue*& out) {
  Core& core = impl_->core;
  if (config.max_wr == 0 || config.max_wr > kMaxQueueDepth || config.max_sge > kMaxSge) return EINVAL;
  if (config.xrc && config.cq == nullptr) return EINVAL;
  if (core.srqs.contains(config.srq_number)) return EEXIST;
  try {
    auto srq = std::make_unique<SharedReceiveQueue::Impl>(config);
    out = srq.get();
    core.srqs.emplace(config.srq_number, std::move(srq));
    core.reserve_events();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  if (config.xrc) ++config.cq->users;
  return 0;
}

int Engine::modify_srq(Time, SharedReceiveQueue* handle, uint32_t limit) {
  SharedReceiveQueue::Impl& srq = handle->impl();
  if (limit > srq.config.max_wr) return EINVAL;
  srq.limit.store(limit, std::memory_order_relaxed);
  if (limit != 0 && srq.queue.waiting() < limit) impl_->core.raise_srq_limit(srq);
  return 0;
}

int Engine::destroy_srq(SharedReceiveQueue* handle) {
  Core& core = impl_->core;
  SharedReceiveQueue::Impl& srq = handle->impl();
  if (srq.users != 0) return EBUSY;
  const uint32_t number = srq.config.srq_number;
  if (srq.config.xrc) {
    // A message of an XRC target may be landing in a receive of this queue: it ends here.
    for (auto& qp : core.qps) {
      if (qp == nullptr || !qp->resp.receive.taken || qp->resp.receive.srq_number != number) continue;
      qp->resp.receive.taken = false;
      qp->resp.message = ResponderState::Message::none;
    }
    --srq.config.cq->users;
  }
  core.events.drop_if(
      [number](const Event& event) { return event.kind == Event::Kind::async_srq && event.id == number; });
  core.srqs.erase(number);
  return 0;
}

// ---- queue pairs --------------------------------------------------------------------------------

static bool config_is_legal(const QpConfig& config, const EngineConfig& engine) {
  const QpCapabilities& caps = config.capabilities;
  if (config.qpn.slot() != engine.slot && config.qpn.slot() != 0) return false;
  const bool sends = config.type != QpType::xrc_target;
  if (sends && (config.send_cq == nullptr || caps.max_send_wr > kMaxQueueDepth ||
                caps.max_send_sge > kMaxSge || caps.max_inline > kMaxInline)) {
    return false;
  }
  const bool receives = config.type != QpType::xrc_target && config.type != QpType::xrc_initiator;
  if (!receives) return config.srq == nullptr;
  if (config.recv_cq == nullptr) return false;
  if (config.srq != nullptr)
    return config.type != QpType::uc && !config.srq->impl().config.xrc;  // the caps are ignored
  return caps.max_recv_wr <= kMaxQueueDepth && caps.max_recv_sge <= kMaxSge;
}

int Engine::create_qp(const QpConfig& config, QueuePair*& out) {
  Core& core = impl_->core;
  if (!config_is_legal(config, core.config)) return EINVAL;
  auto& slot = core.qps[config.qpn.index()];
  if (slot != nullptr) return EEXIST;
  try {
    auto qp = std::make_unique<Qp>(config, core.port_mtu_bytes);
    core.timers.reserve(std::bit_ceil(core.qp_count + 1));
    ++core.qp_count;
    core.reserve_events();
    slot = std::move(qp);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  for (CompletionQueue* cq : {config.send_cq, config.recv_cq}) {
    if (cq != nullptr) ++cq->users;
  }
  if (config.srq != nullptr) ++config.srq->impl().users;
  out = slot.get();
  return 0;
}

int Engine::destroy_qp(Time now, QueuePair* handle) {
  Core& core = impl_->core;
  Qp& qp = handle->impl();
  if (qp.multicast_groups != 0) return EBUSY;
  core.take_rings(now);  // it may be in the list
  core.set_state(qp, QpState::reset, StateReason::modified, now);
  if (qp.bound_windows) core.regions.unbind_all_of(qp.config.qpn);
  const uint32_t qpn = qp.config.qpn.value();
  core.events.drop_if([qpn](const Event& event) {
    return (event.kind == Event::Kind::async_qp || event.kind == Event::Kind::qp_state) && event.id == qpn;
  });
  for (CompletionQueue* cq : {qp.config.send_cq, qp.config.recv_cq}) {
    if (cq != nullptr) --cq->users;
  }
  if (qp.config.srq != nullptr) --qp.config.srq->impl().users;
  --core.qp_count;
  core.qps[qp.config.qpn.index()].reset();
  return 0;
}

static void copy_attributes(const QpAttributes& from, uint32_t mask, QpAttributes& to) {
  const auto has = [mask](uint32_t bit) { return (mask & bit) != 0; };
  using M = QpMask;
  if (has(M::en_sqd_async_notify)) to.en_sqd_async_notify = from.en_sqd_async_notify;
  if (has(M::access_flags)) to.access_flags = from.access_flags;
  if (has(M::pkey_index)) to.pkey_index = from.pkey_index;
  if (has(M::port)) to.port = from.port;
  if (has(M::qkey)) to.qkey = from.qkey;
  if (has(M::av)) to.path = from.path, to.local = from.local, to.peer = from.peer;
  if (has(M::path_mtu)) to.path_mtu = from.path_mtu;
  if (has(M::timeout)) to.timeout = from.timeout;
  if (has(M::retry_cnt)) to.retry_cnt = from.retry_cnt;
  if (has(M::rnr_retry)) to.rnr_retry = from.rnr_retry;
  if (has(M::rq_psn)) to.rq_psn = from.rq_psn;
  if (has(M::sq_psn)) to.sq_psn = from.sq_psn;
  if (has(M::max_qp_rd_atomic)) to.max_rd_atomic = from.max_rd_atomic;
  if (has(M::max_dest_rd_atomic)) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (has(M::min_rnr_timer)) to.min_rnr_timer = from.min_rnr_timer;
  if (has(M::dest_qpn)) to.dest_qpn = from.dest_qpn;
}

// What can fail of a modify, done before anything is changed.
static int prepare(Core& core, Qp& qp, const QpAttributes& attributes, uint32_t mask) {
  if ((mask & QpMask::max_dest_rd_atomic) != 0 && qp.has_responder() &&
      !responder::start(qp, attributes.max_dest_rd_atomic)) {
    return ENOMEM;
  }
  if ((mask & QpMask::av) == 0 || qp.config.type == QpType::ud) return 0;
  const wire::Qpn peer = (mask & QpMask::dest_qpn) != 0 ? attributes.dest_qpn : qp.attributes.dest_qpn;
  Destination* destination = core.destinations.acquire(attributes.path, peer);
  if (destination == nullptr) return ENOMEM;
  if (qp.destination != nullptr) {
    qp.destination->waiting.remove(qp);
    qp.destination->change_in_flight(-static_cast<int64_t>(qp.req.charged));
    core.destinations.release(qp.destination);
    destination->change_in_flight(static_cast<int64_t>(qp.req.charged));
  }
  qp.destination = destination;
  return 0;
}

int Engine::modify_qp(Time now, QueuePair* handle, const QpAttributes& attributes, uint32_t mask) {
  Core& core = impl_->core;
  Qp& qp = handle->impl();
  const QpState old = qp.current();
  int error = check_modify(qp.config.type, old, attributes, mask, core.config);
  if (error == 0) error = prepare(core, qp, attributes, mask);
  if (error != 0) return error;
  copy_attributes(attributes, mask, qp.attributes);
  qp.mtu = bytes_of(qp.attributes.path_mtu);
  if ((mask & QpMask::state) == 0) return 0;
  const QpState next = attributes.state;
  if (next == QpState::rtr)
    qp.resp.expected = qp.attributes.rq_psn, qp.resp.plain_psn = qp.attributes.rq_psn - 1;
  if (next == QpState::rts && old == QpState::rtr) requester::start(qp);
  if (next == QpState::sqd)
    qp.sqd_event = (mask & QpMask::en_sqd_async_notify) != 0 && attributes.en_sqd_async_notify;
  if (next == QpState::sqd) qp.sq_drained = false;
  core.set_state(qp, next, StateReason::modified, now);
  if (next == QpState::rts) core.schedule(qp);
  if (next == QpState::sqd) requester::check_drained(core, qp);
  core.settle(now);
  return 0;
}

void Engine::query_qp(const QueuePair* handle, QpAttributes& out, bool& sq_draining) const {
  const Qp& qp = handle->impl();
  out = qp.attributes;
  out.state = out.cur_state = qp.current();
  sq_draining = qp.current() == QpState::sqd && !qp.sq_drained;
}

void Engine::fail_all(Time now) {
  Core& core = impl_->core;
  for (auto& qp : core.qps) {
    if (qp != nullptr && qp->current() != QpState::reset)
      core.fail(*qp, StateReason::device, Core::kNoEvent, now);
  }
  core.settle(now);
}

// ---- memory -------------------------------------------------------------------------------------

int Engine::register_mr(const MrConfig& config) {
  return impl_->core.regions.add_region(config);
}
int Engine::rereg_mr(uint32_t key, const MrConfig& config) {
  return impl_->core.regions.change_region(key, config);
}
int Engine::deregister_mr(uint32_t key) {
  return impl_->core.regions.remove_region(key);
}
int Engine::register_window(uint32_t rkey, uint32_t pd, bool type2) {
  return impl_->core.regions.add_window(rkey, pd, type2);
}
int Engine::deregister_window(uint32_t rkey) {
  return impl_->core.regions.remove_window(rkey);
}

// ---- multicast ----------------------------------------------------------------------------------

int Engine::attach_multicast(QueuePair* handle, const wire::Gid& group) {
  Qp& qp = handle->impl();
  if (qp.config.type != QpType::ud || !group.is_multicast()) return EINVAL;
  try {
    auto& members = impl_->core.multicast[group];
    if (std::find(members.begin(), members.end(), &qp) != members.end()) return 0;
    members.push_back(&qp);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  ++qp.multicast_groups;
  return 0;
}

int Engine::detach_multicast(QueuePair* handle, const wire::Gid& group) {
  Core& core = impl_->core;
  Qp& qp = handle->impl();
  const auto entry = core.multicast.find(group);
  if (entry == core.multicast.end()) return EINVAL;
  auto& members = entry->second;
  const auto member = std::find(members.begin(), members.end(), &qp);
  if (member == members.end()) return EINVAL;
  members.erase(member);
  if (members.empty()) core.multicast.erase(entry);
  --qp.multicast_groups;
  return 0;
}

void Engine::set_port_mtu(PathMtu mtu) {
  impl_->core.port_mtu_bytes.store(bytes_of(mtu), std::memory_order_relaxed);
}

}  // namespace uroce::engine
