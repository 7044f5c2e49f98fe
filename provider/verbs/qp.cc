// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Queue pairs come and go.
#include "provider/verbs/qp.h"

#include <algorithm>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/verbs/boundary.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/events.h"
#include "provider/verbs/library.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/srq.h"
#include "provider/verbs/wr_batch.h"
#include "provider/verbs/xrc.h"

namespace uroce::verbs {

QueuePair::QueuePair() : area{} {
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
}

QueuePair::~QueuePair() {
  pthread_cond_destroy(&base.cond);
  pthread_mutex_destroy(&base.mutex);
}

CompletionQueue* QueuePair::send_cq() const {
  return base.send_cq != nullptr ? &CompletionQueue::of(base.send_cq) : nullptr;
}
CompletionQueue* QueuePair::recv_cq() const {
  return base.recv_cq != nullptr ? &CompletionQueue::of(base.recv_cq) : nullptr;
}

namespace {

// What each type is made of.
struct TypeRule {
  ibv_qp_type type;
  engine::QpType engine_type;
  bool pd, send_cq, recv_cq, srq_allowed, xrcd;
};
constexpr TypeRule kTypeRules[] = {
    {IBV_QPT_RC, engine::QpType::rc, true, true, true, true, false},
    {IBV_QPT_UC, engine::QpType::uc, true, true, true, false, false},
    {IBV_QPT_UD, engine::QpType::ud, true, true, true, true, false},
    {IBV_QPT_XRC_SEND, engine::QpType::xrc_initiator, true, true, false, false, false},
    {IBV_QPT_XRC_RECV, engine::QpType::xrc_target, false, false, false, false, true},
};

const TypeRule* rule_of(ibv_qp_type type) {
  const auto* const found = std::find_if(std::begin(kTypeRules), std::end(kTypeRules),
                                         [type](const TypeRule& r) { return r.type == type; });
  return found != std::end(kTypeRules) ? found : nullptr;
}

bool has(const ibv_qp_init_attr_ex& wanted, uint32_t bit) {
  return (wanted.comp_mask & bit) != 0;
}

// The parts are there and the limits kept; capabilities that the type does not use are cleared.
int check(const TypeRule& rule, ibv_qp_init_attr_ex& wanted) {
  if (rule.pd && (!has(wanted, IBV_QP_INIT_ATTR_PD) || wanted.pd == nullptr)) return EINVAL;
  if (rule.xrcd && (!has(wanted, IBV_QP_INIT_ATTR_XRCD) || wanted.xrcd == nullptr)) return EINVAL;
  if (rule.send_cq && wanted.send_cq == nullptr) return EINVAL;
  if (rule.recv_cq && wanted.recv_cq == nullptr) return EINVAL;
  if (wanted.srq != nullptr && !rule.srq_allowed && rule.recv_cq) return EINVAL;
  ibv_qp_cap& cap = wanted.cap;
  if (!rule.send_cq) wanted.send_cq = nullptr, cap.max_send_wr = cap.max_send_sge = cap.max_inline_data = 0;
  if (!rule.recv_cq) wanted.recv_cq = nullptr, wanted.srq = nullptr;
  if (!rule.recv_cq || wanted.srq != nullptr) cap.max_recv_wr = cap.max_recv_sge = 0;
  if (cap.max_send_wr > UROCE_MAX_QP_WR || cap.max_recv_wr > UROCE_MAX_QP_WR ||
      cap.max_send_sge > UROCE_MAX_SGE || cap.max_recv_sge > UROCE_MAX_SGE ||
      cap.max_inline_data > UROCE_MAX_INLINE) {
    return EINVAL;
  }
  if (rule.send_cq) {
    cap.max_send_wr = std::max(cap.max_send_wr, 1u);
    // A request has that room anyway, and programs (rdma_xclient) post inline what they never asked for.
    const auto list_bytes = static_cast<uint32_t>(cap.max_send_sge * sizeof(engine::SgEntry));
    cap.max_inline_data = std::max(cap.max_inline_data, list_bytes);
  }
  if (rule.recv_cq && wanted.srq == nullptr) cap.max_recv_wr = std::max(cap.max_recv_wr, 1u);
  return 0;
}

int create_command(QueuePair& qp, const XrcDomain* xrcd, const ibv_qp_init_attr_ex& wanted,
                   ib_uverbs_create_qp_resp& response) {
  ib_uverbs_create_qp request{};
  request.user_handle = reinterpret_cast<uintptr_t>(&qp);
  request.pd_handle = xrcd != nullptr ? xrcd->handle : ProtectionDomain::of(wanted.pd).handle;
  if (wanted.send_cq != nullptr) request.send_cq_handle = wanted.send_cq->handle;
  if (wanted.recv_cq != nullptr) request.recv_cq_handle = wanted.recv_cq->handle;
  if (wanted.srq != nullptr) request.srq_handle = wanted.srq->handle;
  request.max_send_wr = wanted.cap.max_send_wr;
  request.max_recv_wr = wanted.cap.max_recv_wr;
  request.max_send_sge = wanted.cap.max_send_sge;
  request.max_recv_sge = wanted.cap.max_recv_sge;
  request.max_inline_data = wanted.cap.max_inline_data;
  request.sq_sig_all = wanted.sq_sig_all != 0;
  request.qp_type = static_cast<uint8_t>(wanted.qp_type);
  request.is_srq = wanted.srq != nullptr;
  return call(qp.owner->port(), IB_USER_VERBS_CMD_CREATE_QP, request, response);
}

void fill_public_part(QueuePair& qp, const ibv_qp_init_attr_ex& wanted,
                      const ib_uverbs_create_qp_resp& response) {
  qp.base.context = qp.owner->base();
  qp.base.qp_context = wanted.qp_context;
  qp.base.pd = wanted.pd;  // also of an XRC target, where librdmacm looks for the domain of the connection
  qp.base.send_cq = wanted.send_cq;
  qp.base.recv_cq = wanted.recv_cq;
  qp.base.srq = wanted.srq;
  qp.base.handle = response.qp_handle;
  qp.base.qp_num = response.qpn;
  qp.base.state = IBV_QPS_RESET;
  qp.base.qp_type = wanted.qp_type;
  qp.cap = {.max_send_wr = response.max_send_wr,
            .max_recv_wr = response.max_recv_wr,
            .max_send_sge = response.max_send_sge,
            .max_recv_sge = response.max_recv_sge,
            .max_inline_data = response.max_inline_data};
}

int create_in_engine(QueuePair& qp) {
  engine::QpConfig config;
  config.qpn = wire::Qpn(qp.base.qp_num);
  config.type = qp.type;
  if (qp.type != engine::QpType::xrc_target) config.pd = ProtectionDomain::of(qp.base.pd).number();
  if (qp.send_cq() != nullptr) config.send_cq = qp.send_cq()->ring;
  if (qp.recv_cq() != nullptr) config.recv_cq = qp.recv_cq()->ring;
  if (qp.base.srq != nullptr) config.srq = SharedReceiveQueue::of(qp.base.srq).queue;
  config.xrc_domain = qp.xrc_domain;
  config.signal_all = qp.signal_all;
  config.capabilities = {qp.cap.max_send_wr, qp.cap.max_recv_wr, qp.cap.max_send_sge, qp.cap.max_recv_sge,
                         qp.cap.max_inline_data};
  config.user_handle = reinterpret_cast<uintptr_t>(&qp);
  return qp.owner->data().control(
      [&](engine::Engine& engine, engine::Time) { return engine.create_qp(config, qp.queue); });
}

// Command, then engine; a failure at any point leaves nothing behind.
QueuePair* create(Context& context, ibv_qp_init_attr_ex& wanted) {
  constexpr uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                             IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (int error = context.unusable(); error != 0) return fail(error);
  const TypeRule* const rule = rule_of(wanted.qp_type);
  if (rule == nullptr || (wanted.comp_mask & ~known) != 0) return fail(EOPNOTSUPP);
  if (has(wanted, IBV_QP_INIT_ATTR_CREATE_FLAGS) && wanted.create_flags != 0) return fail(EOPNOTSUPP);
  if (int error = check(*rule, wanted); error != 0) return fail(error);

  auto qp = std::make_unique<QueuePair>();
  qp->use.begin(context);
  qp->owner = &context;
  qp->type = rule->engine_type;
  qp->signal_all = wanted.sq_sig_all != 0;
  qp->shared = std::make_shared<QpShared>();
  XrcDomain* const xrcd = rule->xrcd ? &XrcDomain::of(wanted.xrcd) : nullptr;
  if (xrcd != nullptr) qp->xrc_domain = xrcd->number;
  ib_uverbs_create_qp_resp response{};
  if (int error = create_command(*qp, xrcd, wanted, response); error != 0) return fail(error);
  fill_public_part(*qp, wanted, response);
  int error = 0;
  try {
    if (has(wanted, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
      error = install_extended_posting(*qp, wanted.send_ops_flags);
    if (error == 0) error = create_in_engine(*qp);
    if (error == 0 && xrcd != nullptr) context.xrc().add_target(*qp);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error != 0) {
    if (qp->queue != nullptr) {
      context.data().control(
          [&](engine::Engine& engine, engine::Time now) { return engine.destroy_qp(now, qp->queue); });
    }
    ib_uverbs_destroy_qp_resp ignored{};
    destroy_command(*qp, ignored);
    return fail(error);
  }
  context.data().publish_qp(qp->queue);
  wanted.cap = qp->cap;
  return qp.release();
}

}  // namespace

int destroy_command(QueuePair& qp, ib_uverbs_destroy_qp_resp& response) {
  ib_uverbs_destroy_qp request{};
  request.qp_handle = qp.base.handle;
  return call(qp.owner->port(), IB_USER_VERBS_CMD_DESTROY_QP, request, response);
}

namespace {

// What both forms of the attributes begin with.
template <typename Attributes>
ibv_qp_init_attr_ex common_part(const Attributes& from) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_context = from.qp_context;
  wanted.send_cq = from.send_cq;
  wanted.recv_cq = from.recv_cq;
  wanted.srq = from.srq;
  wanted.cap = from.cap;
  wanted.qp_type = from.qp_type;
  wanted.sq_sig_all = from.sq_sig_all;
  return wanted;
}

template <typename Attributes>
ibv_qp* create_for(ibv_context* context, ibv_qp_init_attr_ex& wanted, Attributes& attributes) {
  QueuePair* const qp = create(Context::of(context), wanted);
  if (qp == nullptr) return nullptr;
  attributes.cap = wanted.cap;
  return &qp->base;
}

}  // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp_init_attr_ex wanted = common_part(*attributes);
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = pd;
  return create_for(pd->context, wanted, *attributes);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  // The program's structure may end before members that its comp_mask does not name: take over the named
  // ones.
  ibv_qp_init_attr_ex wanted = common_part(*attributes);
  wanted.comp_mask = attributes->comp_mask;
  if (has(wanted, IBV_QP_INIT_ATTR_PD)) wanted.pd = attributes->pd;
  if (has(wanted, IBV_QP_INIT_ATTR_XRCD)) wanted.xrcd = attributes->xrcd;
  if (has(wanted, IBV_QP_INIT_ATTR_CREATE_FLAGS)) wanted.create_flags = attributes->create_flags;
  if (has(wanted, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) wanted.send_ops_flags = attributes->send_ops_flags;
  return create_for(context, wanted, *attributes);
}

namespace {

// Its completions leave the queues with it; a poller stays out meanwhile.
int destroy_in_engine(QueuePair& qp) {
  const CqPairGuard guard(qp.send_cq(), qp.recv_cq());
  return qp.owner->data().control(
      [&](engine::Engine& engine, engine::Time now) { return engine.destroy_qp(now, qp.queue); });
}

}  // namespace

int destroy_qp(ibv_qp* base) {
  std::unique_ptr<QueuePair> qp(&QueuePair::of(base));
  Context& context = *qp->owner;
  if (context.closed()) return 0;
  int error = context.refused();
  const bool target = qp->type == engine::QpType::xrc_target;
  const bool last = error == 0 && (!target || context.xrc().leave_target(*qp));
  if (error == 0 && last) error = destroy_in_engine(*qp);
  if (error != 0) {
    static_cast<void>(qp.release());
    return error;
  }
  if (last) {
    context.data().forget_events(UROCE_KICK_QP_EVENT, base->qp_num);
    context.data().release_path(qp->shared->path);
  }
  ib_uverbs_destroy_qp_resp response{};
  if (destroy_command(*qp, response) == 0) {
    wait_until_acknowledged(base->mutex, base->cond, base->events_completed, response.events_reported);
  }
  if (!target) return 0;
  const std::unique_ptr<QueuePair> creator = context.xrc().keep_creator(qp, last);
  return 0;
}

}  // namespace uroce::verbs
