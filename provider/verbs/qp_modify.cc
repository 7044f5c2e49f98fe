// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Modify and query. The table of transitions is the engine's; here attributes are translated, the address
// vector is looked up and the control side is told.
#include <cstring>

#include "provider/engine/qp_transitions.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/qp.h"

namespace uroce::verbs {

namespace {

using engine::QpMask;
static_assert(QpMask::av == IBV_QP_AV && QpMask::path_mtu == IBV_QP_PATH_MTU &&
              QpMask::dest_qpn == IBV_QP_DEST_QPN && QpMask::rate_limit == IBV_QP_RATE_LIMIT &&
              QpMask::min_rnr_timer == IBV_QP_MIN_RNR_TIMER &&
              QpMask::max_dest_rd_atomic == IBV_QP_MAX_DEST_RD_ATOMIC);
static_assert(static_cast<int>(engine::QpState::error) == IBV_QPS_ERR &&
              static_cast<int>(engine::QpState::sqd) == IBV_QPS_SQD);
static_assert(static_cast<int>(engine::PathMtu::mtu_4096) == IBV_MTU_4096);

// Values that do not fit the engine's types.
bool representable(const ibv_qp_attr& from, uint32_t mask) {
  const auto is_state = [](ibv_qp_state s) { return s >= IBV_QPS_RESET && s <= IBV_QPS_ERR; };
  if ((mask & QpMask::state) != 0 && !is_state(from.qp_state)) return false;
  if ((mask & QpMask::cur_state) != 0 && !is_state(from.cur_qp_state)) return false;
  if ((mask & QpMask::path_mtu) != 0 && (from.path_mtu < IBV_MTU_256 || from.path_mtu > IBV_MTU_4096))
    return false;
  if ((mask & QpMask::port) != 0 && from.port_num != 1) return false;
  if ((mask & QpMask::pkey_index) != 0 && from.pkey_index != 0) return false;
  return true;
}

// What the mask does not name may be anything: above all no member of its enum.
engine::QpAttributes translate(const ibv_qp_attr& from, uint32_t mask) {
  engine::QpAttributes to;
  if ((mask & QpMask::state) != 0) to.state = static_cast<engine::QpState>(from.qp_state);
  if ((mask & QpMask::cur_state) != 0) to.cur_state = static_cast<engine::QpState>(from.cur_qp_state);
  to.en_sqd_async_notify = from.en_sqd_async_notify != 0;
  to.access_flags = from.qp_access_flags;
  to.pkey_index = from.pkey_index;
  to.port = from.port_num;
  to.qkey = from.qkey;
  if ((mask & QpMask::path_mtu) != 0) to.path_mtu = static_cast<engine::PathMtu>(from.path_mtu);
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.rq_psn = wire::Psn(from.rq_psn);
  to.sq_psn = wire::Psn(from.sq_psn);
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.dest_qpn = wire::Qpn(from.dest_qp_num);
  return to;
}

ib_uverbs_qp_dest destination_of(const ibv_ah_attr& from) {
  ib_uverbs_qp_dest to{};
  std::memcpy(to.dgid, from.grh.dgid.raw, sizeof(to.dgid));
  to.flow_label = from.grh.flow_label;
  to.dlid = from.dlid;
  to.sgid_index = from.grh.sgid_index;
  to.hop_limit = from.grh.hop_limit;
  to.traffic_class = from.grh.traffic_class;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.is_global = from.is_global;
  to.port_num = from.port_num;
  return to;
}

int modify_command(QueuePair& qp, const ibv_qp_attr& from, uint32_t mask) {
  ib_uverbs_modify_qp request{};
  if ((mask & QpMask::av) != 0) request.dest = destination_of(from.ah_attr);
  request.qp_handle = qp.base.handle;
  request.attr_mask = mask;
  request.qkey = from.qkey;
  request.rq_psn = from.rq_psn;
  request.sq_psn = from.sq_psn;
  request.dest_qp_num = from.dest_qp_num;
  request.qp_access_flags = from.qp_access_flags;
  request.pkey_index = from.pkey_index;
  if ((mask & QpMask::state) != 0) request.qp_state = static_cast<uint8_t>(from.qp_state);
  if ((mask & QpMask::cur_state) != 0) request.cur_qp_state = static_cast<uint8_t>(from.cur_qp_state);
  if ((mask & QpMask::path_mtu) != 0) request.path_mtu = static_cast<uint8_t>(from.path_mtu);
  request.en_sqd_async_notify = from.en_sqd_async_notify;
  request.max_rd_atomic = from.max_rd_atomic;
  request.max_dest_rd_atomic = from.max_dest_rd_atomic;
  request.min_rnr_timer = from.min_rnr_timer;
  request.port_num = from.port_num;
  request.timeout = from.timeout;
  request.retry_cnt = from.retry_cnt;
  request.rnr_retry = from.rnr_retry;
  return call(qp.owner->port(), IB_USER_VERBS_CMD_MODIFY_QP, request);
}

// The engine's part. To RESET the completions that wait go too, so the pollers stay out.
int modify_in_engine(QueuePair& qp, const engine::QpAttributes& attributes, uint32_t mask) {
  const bool to_reset = (mask & QpMask::state) != 0 && attributes.state == engine::QpState::reset;
  CompletionQueue* const send_cq = to_reset ? qp.send_cq() : nullptr;
  CompletionQueue* const recv_cq = to_reset ? qp.recv_cq() : nullptr;
  const CqPairGuard guard(send_cq, recv_cq);
  return qp.owner->data().control([&](engine::Engine& engine, engine::Time now) {
    return engine.modify_qp(now, qp.queue, attributes, mask);
  });
}

// A path MTU that the port cannot carry would never arrive.
bool exceeds_port(Context& context, const ibv_qp_attr& from, uint32_t mask) {
  if ((mask & QpMask::path_mtu) == 0) return false;
  uroce_device_page page;
  context.data().device_page(page);
  return page.active_mtu != 0 && static_cast<uint32_t>(from.path_mtu) > page.active_mtu;
}

}  // namespace

namespace {

// The control side first: it may refuse for reasons of its own, and then nothing has changed. To ERR and
// RESET a queue pair must get even when nobody answers any more.
int carry_out(QueuePair& qp, const ibv_qp_attr& from, const engine::QpAttributes& attributes, uint32_t mask) {
  Context& context = *qp.owner;
  if (int error = engine::check_modify(qp.type, qp.queue->state(), attributes, mask, engine::EngineConfig{});
      error != 0) {
    return error;
  }
  if (exceeds_port(context, from, mask)) return EINVAL;
  const bool always = (mask & QpMask::state) != 0 && (attributes.state == engine::QpState::reset ||
                                                      attributes.state == engine::QpState::error);
  const int error = modify_command(qp, from, mask);
  if (error != 0 && !(always && context.data().fatal())) return error;
  return modify_in_engine(qp, attributes, mask);
}

}  // namespace

int modify_qp(ibv_qp* base, ibv_qp_attr* from, int signed_mask) {
  QueuePair& qp = QueuePair::of(base);
  Context& context = *qp.owner;
  if (int error = context.refused(); error != 0) return error;
  const auto mask = static_cast<uint32_t>(signed_mask);
  if (!representable(*from, mask)) return EINVAL;
  const std::lock_guard guard(qp.shared->control);

  engine::QpAttributes attributes = translate(*from, mask);
  if ((mask & QpMask::av) != 0) {
    engine::Path resolved;
    if (int error = resolve_path(context, from->ah_attr, attributes.path, resolved); error != 0) return error;
    attributes.local = resolved.source;
    attributes.peer = resolved.destination;
  }
  if (int error = carry_out(qp, *from, attributes, mask); error != 0) {
    context.data().release_path(attributes.path);
    return error;
  }
  const bool to_reset = (mask & QpMask::state) != 0 && attributes.state == engine::QpState::reset;
  if ((mask & QpMask::av) != 0 || to_reset) {
    context.data().release_path(qp.shared->path);
    qp.shared->path = attributes.path;
    qp.shared->ah_attr = to_reset ? ibv_ah_attr{} : from->ah_attr;
  }
  context.data().publish_qp(qp.queue);
  return 0;
}

int query_qp(ibv_qp* base, ibv_qp_attr* to, int, ibv_qp_init_attr* init) {
  QueuePair& qp = QueuePair::of(base);
  if (int error = qp.owner->refused(); error != 0) return error;
  const std::lock_guard guard(qp.shared->control);
  engine::QpAttributes from;
  bool draining = false;
  qp.owner->data().control(
      [&](engine::Engine& engine, engine::Time) { engine.query_qp(qp.queue, from, draining); });
  *to = ibv_qp_attr{};
  to->qp_state = static_cast<ibv_qp_state>(from.state);
  to->cur_qp_state = static_cast<ibv_qp_state>(from.cur_state);
  to->path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  to->path_mig_state = IBV_MIG_MIGRATED;
  to->qkey = from.qkey;
  to->rq_psn = from.rq_psn.value();
  to->sq_psn = from.sq_psn.value();
  to->dest_qp_num = from.dest_qpn.value();
  to->qp_access_flags = from.access_flags;
  to->cap = qp.cap;
  to->ah_attr = qp.shared->ah_attr;
  to->pkey_index = from.pkey_index;
  to->en_sqd_async_notify = from.en_sqd_async_notify;
  to->sq_draining = draining;
  to->max_rd_atomic = from.max_rd_atomic;
  to->max_dest_rd_atomic = from.max_dest_rd_atomic;
  to->min_rnr_timer = from.min_rnr_timer;
  to->port_num = from.port;
  to->timeout = from.timeout;
  to->retry_cnt = from.retry_cnt;
  to->rnr_retry = from.rnr_retry;
  *init = ibv_qp_init_attr{};
  init->qp_context = base->qp_context;
  init->send_cq = base->send_cq;
  init->recv_cq = base->recv_cq;
  init->srq = base->srq;
  init->cap = qp.cap;
  init->qp_type = base->qp_type;
  init->sq_sig_all = qp.signal_all;
  return 0;
}

}  // namespace uroce::verbs
