// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/srq.h"

#include <memory>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/verbs/boundary.h"
#include "provider/verbs/events.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/xrc.h"

namespace uroce::verbs {

namespace {

struct SrqAnswer {
  uroce_create_srq_resp ours{};
  ib_uverbs_create_srq_resp core{};  // last: it ends with a flexible array
};

bool limits_are_legal(const ibv_srq_attr& attributes) {
  return attributes.max_wr > 0 && attributes.max_wr <= UROCE_MAX_SRQ_WR &&
         attributes.max_sge <= UROCE_MAX_SGE && attributes.srq_limit <= attributes.max_wr;
}

int create_basic(SharedReceiveQueue& srq, const ProtectionDomain& pd, const ibv_srq_attr& wanted,
                 SrqAnswer& answer) {
  ib_uverbs_create_srq request{};
  request.user_handle = reinterpret_cast<uintptr_t>(&srq);
  request.pd_handle = pd.handle;
  request.max_wr = wanted.max_wr;
  request.max_sge = wanted.max_sge;
  return call(srq.owner->port(), IB_USER_VERBS_CMD_CREATE_SRQ, request, answer.core, answer.ours);
}

int create_xrc(SharedReceiveQueue& srq, const ProtectionDomain& pd, const ibv_srq_init_attr_ex& wanted,
               SrqAnswer& answer) {
  ib_uverbs_create_xsrq request{};
  request.user_handle = reinterpret_cast<uintptr_t>(&srq);
  request.srq_type = IB_UVERBS_SRQT_XRC;
  request.pd_handle = pd.handle;
  request.max_wr = wanted.attr.max_wr;
  request.max_sge = wanted.attr.max_sge;
  request.xrcd_handle = XrcDomain::of(wanted.xrcd).handle;
  request.cq_handle = wanted.cq->handle;
  return call(srq.owner->port(), IB_USER_VERBS_CMD_CREATE_XSRQ, request, answer.core, answer.ours);
}

int destroy_command(SharedReceiveQueue& srq, ib_uverbs_destroy_srq_resp& response) {
  ib_uverbs_destroy_srq request{};
  request.srq_handle = srq.srq.handle;
  return call(srq.owner->port(), IB_USER_VERBS_CMD_DESTROY_SRQ, request, response);
}

void fill_public_part(SharedReceiveQueue& srq, ibv_context* context, ibv_pd* pd, void* srq_context) {
  srq.srq.context = context;
  srq.srq.srq_context = srq_context;
  srq.srq.pd = pd;
  pthread_mutex_init(&srq.srq.mutex, nullptr);
  pthread_cond_init(&srq.srq.cond, nullptr);
}

// The engine's part, after the command.
int create_in_engine(SharedReceiveQueue& srq, const ProtectionDomain& pd, uint32_t limit) {
  engine::SrqConfig config;
  config.srq_number = srq.srq_num;
  config.pd = pd.number();
  config.max_wr = srq.max_wr;
  config.max_sge = srq.max_sge;
  config.user_handle = reinterpret_cast<uintptr_t>(&srq);
  if (srq.type == IBV_SRQT_XRC) {
    config.xrc = true;
    config.xrc_domain = XrcDomain::of(&srq.xrcd->xrcd).number;
    config.cq = CompletionQueue::of(srq.cq).ring;
  }
  return srq.owner->data().control([&](engine::Engine& engine, engine::Time now) {
    if (int error = engine.create_srq(config, srq.queue); error != 0) return error;
    return limit != 0 ? engine.modify_srq(now, srq.queue, limit) : 0;
  });
}

ibv_srq* finish(std::unique_ptr<SharedReceiveQueue> srq, ProtectionDomain& pd, const SrqAnswer& answer,
                uint32_t limit) {
  srq->srq.handle = answer.core.srq_handle;
  srq->srq_num = srq->type == IBV_SRQT_XRC ? answer.core.srqn : answer.ours.srq_number;
  srq->max_wr = answer.core.max_wr;
  srq->max_sge = answer.core.max_sge;
  if (int error = create_in_engine(*srq, pd, limit); error != 0) {
    ib_uverbs_destroy_srq_resp ignored{};
    destroy_command(*srq, ignored);
    return fail(error);
  }
  return &srq.release()->srq;
}

}  // namespace

ibv_srq* create_srq(ibv_pd* base, ibv_srq_init_attr* attributes) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  Context& context = Context::of(pd.context);
  if (int error = context.unusable(); error != 0) return fail(error);
  if (!limits_are_legal(attributes->attr)) return fail(EINVAL);
  auto srq = std::make_unique<SharedReceiveQueue>();
  srq->use.begin(context);
  srq->owner = &context;
  srq->type = IBV_SRQT_BASIC;
  fill_public_part(*srq, pd.context, base, attributes->srq_context);
  SrqAnswer answer;
  if (int error = create_basic(*srq, pd, attributes->attr, answer); error != 0) return fail(error);
  ibv_srq* const created = finish(std::move(srq), pd, answer, attributes->attr.srq_limit);
  if (created != nullptr) {
    attributes->attr.max_wr = answer.core.max_wr;
    attributes->attr.max_sge = answer.core.max_sge;
  }
  return created;
}

ibv_srq* create_srq_ex(ibv_context* base, ibv_srq_init_attr_ex* attributes) {
  constexpr uint32_t known =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  constexpr uint32_t xrc_needs = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  Context& context = Context::of(base);
  if (int error = context.unusable(); error != 0) return fail(error);
  if ((attributes->comp_mask & ~known) != 0) return fail(EOPNOTSUPP);
  const auto type =
      (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attributes->srq_type : IBV_SRQT_BASIC;
  if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) return fail(EOPNOTSUPP);
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr ||
      !limits_are_legal(attributes->attr)) {
    return fail(EINVAL);
  }
  if (type == IBV_SRQT_XRC && ((attributes->comp_mask & xrc_needs) != xrc_needs ||
                               attributes->xrcd == nullptr || attributes->cq == nullptr)) {
    return fail(EINVAL);
  }

  ProtectionDomain& pd = ProtectionDomain::of(attributes->pd);
  auto srq = std::make_unique<SharedReceiveQueue>();
  srq->use.begin(context);
  srq->owner = &context;
  srq->type = type;
  fill_public_part(*srq, base, attributes->pd, attributes->srq_context);
  SrqAnswer answer;
  int error = 0;
  if (type == IBV_SRQT_XRC) {
    srq->xrcd = &XrcDomain::of(attributes->xrcd);
    srq->cq = attributes->cq;
    error = create_xrc(*srq, pd, *attributes, answer);
  } else {
    error = create_basic(*srq, pd, attributes->attr, answer);
  }
  if (error != 0) return fail(error);
  ibv_srq* const created = finish(std::move(srq), pd, answer, attributes->attr.srq_limit);
  if (created != nullptr) {
    attributes->attr.max_wr = answer.core.max_wr;
    attributes->attr.max_sge = answer.core.max_sge;
  }
  return created;
}

int modify_srq(ibv_srq* base, ibv_srq_attr* attributes, int mask) {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(base);
  if (int error = srq.owner->unusable(); error != 0) return error;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;  // SRQ_RESIZE is not announced
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  const uint32_t limit = attributes->srq_limit;
  // The limit lives in the engine alone, which raises the event.
  return srq.owner->data().control(
      [&](engine::Engine& engine, engine::Time now) { return engine.modify_srq(now, srq.queue, limit); });
}

int query_srq(ibv_srq* base, ibv_srq_attr* attributes) {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(base);
  if (int error = srq.owner->refused(); error != 0) return error;
  attributes->max_wr = srq.max_wr;
  attributes->max_sge = srq.max_sge;
  attributes->srq_limit = srq.queue->armed_limit();
  return 0;
}

int destroy_srq(ibv_srq* base) {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(base);
  if (srq.owner->closed()) {
    delete &srq;
    return 0;
  }
  if (int error = srq.owner->refused(); error != 0) return error;
  {
    const CqPairGuard guard(srq.cq != nullptr ? &CompletionQueue::of(srq.cq) : nullptr, nullptr);
    const int error = srq.owner->data().control([&](engine::Engine& engine, engine::Time) {
      const int failed = engine.destroy_srq(srq.queue);
      if (failed == 0 && srq.cq != nullptr) CompletionQueue::of(srq.cq).ring->purge(0, srq.srq_num);
      return failed;
    });
    if (error != 0) return error;
  }
  srq.owner->data().forget_events(UROCE_KICK_SRQ_EVENT, srq.srq_num);
  ib_uverbs_destroy_srq_resp response{};
  if (destroy_command(srq, response) == 0) {
    wait_until_acknowledged(base->mutex, base->cond, base->events_completed, response.events_reported);
  }
  pthread_mutex_destroy(&base->mutex);
  pthread_cond_destroy(&base->cond);
  delete &srq;
  return 0;
}

int get_srq_num(ibv_srq* base, uint32_t* number) {
  const SharedReceiveQueue& srq = SharedReceiveQueue::of(base);
  if (srq.type != IBV_SRQT_XRC) return EINVAL;
  *number = srq.srq_num;
  return 0;
}

}  // namespace uroce::verbs
