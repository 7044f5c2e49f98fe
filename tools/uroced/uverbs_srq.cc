// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <rdma/ib_user_ioctl_verbs.h>

#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kMaskMaxWr = 1, kMaskLimit = 2;  // IB_SRQ_MAX_WR, IB_SRQ_LIMIT

struct Wanted {
  uint64_t user_handle;
  SrqBody body;
};

int create(UverbsCall& call, const Wanted& wanted) {
  const SrqBody& body = wanted.body;
  if (body.max_wr == 0 || body.max_wr > UROCE_MAX_SRQ_WR || body.max_sge > UROCE_MAX_SGE ||
      body.limit > body.max_wr)
    return EINVAL;
  if (call.find(ObjectKind::pd, body.pd) == nullptr) return EINVAL;
  const uint32_t handle = call.create(ObjectKind::srq, wanted.user_handle);
  if (handle == 0) return errno;
  call.edit(handle).srq = body;
  for (const uint32_t used : {body.pd, body.cq, body.xrcd}) call.registry.add_user(used, 1);
  ib_uverbs_create_srq_resp response{};
  response.srq_handle = handle;
  response.max_wr = body.max_wr;
  response.max_sge = body.max_sge;
  if (body.xrcd != 0) response.srqn = handle;
  call.reply.core(response);
  call.reply.driver(uroce_create_srq_resp{handle, 0});  // one number space for the whole daemon: its index
  return 0;
}

}  // namespace

int create_srq(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_create_srq>();
  return create(call, {request.user_handle,
                       {.pd = request.pd_handle,
                        .cq = 0,
                        .xrcd = 0,
                        .max_wr = request.max_wr,
                        .max_sge = request.max_sge,
                        .limit = request.srq_limit}});
}

int create_xsrq(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_create_xsrq>();
  SrqBody body{.pd = request.pd_handle,
               .cq = 0,
               .xrcd = 0,
               .max_wr = request.max_wr,
               .max_sge = request.max_sge,
               .limit = request.srq_limit};
  switch (request.srq_type) {
    case IB_UVERBS_SRQT_BASIC: break;
    case IB_UVERBS_SRQT_XRC:
      if (call.find(ObjectKind::xrcd, request.xrcd_handle) == nullptr ||
          call.find(ObjectKind::cq, request.cq_handle) == nullptr) {
        return EINVAL;
      }
      body.cq = request.cq_handle;
      body.xrcd = request.xrcd_handle;
      break;
    default: return EOPNOTSUPP;  // tag matching
  }
  return create(call, {request.user_handle, body});
}

int modify_srq(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_modify_srq>();
  const ObjectRecord* srq = call.find(ObjectKind::srq, request.srq_handle);
  if (srq == nullptr || (request.attr_mask & ~(kMaskMaxWr | kMaskLimit)) != 0) return EINVAL;
  SrqBody body = srq->srq;
  if ((request.attr_mask & kMaskMaxWr) != 0) {
    if (request.max_wr == 0 || request.max_wr > UROCE_MAX_SRQ_WR) return EINVAL;
    body.max_wr = request.max_wr;
  }
  if ((request.attr_mask & kMaskLimit) != 0) body.limit = request.srq_limit;
  if (body.limit > body.max_wr) return EINVAL;
  call.edit(request.srq_handle).srq = body;
  return 0;
}

int query_srq(UverbsCall& call) {
  const ObjectRecord* srq = call.find(ObjectKind::srq, call.request<ib_uverbs_query_srq>().srq_handle);
  if (srq == nullptr) return EINVAL;
  call.reply.core(ib_uverbs_query_srq_resp{srq->srq.max_wr, srq->srq.max_sge, srq->srq.limit, 0});
  return 0;
}

int destroy_srq(UverbsCall& call) {
  const uint32_t handle = call.request<ib_uverbs_destroy_srq>().srq_handle;
  const ObjectRecord* srq = call.find(ObjectKind::srq, handle);
  if (srq == nullptr) return EINVAL;
  if (srq->users != 0) return EBUSY;
  release_object(call.registry, handle);
  call.reply.core(ib_uverbs_destroy_srq_resp{});
  return 0;
}

}  // namespace uroce::daemon
