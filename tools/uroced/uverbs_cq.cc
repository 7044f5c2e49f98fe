// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

namespace {

struct Wanted {
  uint64_t user_handle;
  uint32_t entries, comp_vector;
};

int create(UverbsCall& call, const Wanted& wanted, ib_uverbs_create_cq_resp& response) {
  if (wanted.entries == 0 || wanted.entries > UROCE_MAX_CQE || wanted.comp_vector != 0) return EINVAL;
  const uint32_t handle = call.create(ObjectKind::cq, wanted.user_handle);
  if (handle == 0) return errno;
  call.edit(handle).cq = {wanted.entries};
  response.cq_handle = handle;
  response.cqe = wanted.entries;
  call.reply.driver(uroce_create_cq_resp{handle, 0});
  return 0;
}

}  // namespace

int create_cq(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_create_cq>();
  ib_uverbs_create_cq_resp response{};
  const int error = create(call, {request.user_handle, request.cqe, request.comp_vector}, response);
  if (error == 0) call.reply.core(response);
  return error;
}

int create_cq_extended(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_ex_create_cq>();
  if (request.comp_mask != 0 || request.reserved != 0) return EINVAL;
  if (!call.rest_is_zero<ib_uverbs_ex_create_cq>()) return EOPNOTSUPP;
  constexpr uint32_t known = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
  if ((request.flags & ~known) != 0) return EOPNOTSUPP;
  ib_uverbs_ex_create_cq_resp response{};
  const int error = create(call, {request.user_handle, request.cqe, request.comp_vector}, response.base);
  response.response_length = sizeof response;
  if (error == 0) call.reply.core(response);
  return error;
}

int resize_cq(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_resize_cq>();
  if (request.cqe == 0 || request.cqe > UROCE_MAX_CQE) return EINVAL;
  if (call.find(ObjectKind::cq, request.cq_handle) == nullptr) return EINVAL;
  call.edit(request.cq_handle).cq.entries = request.cqe;
  ib_uverbs_resize_cq_resp response{};
  response.cqe = request.cqe;
  call.reply.core(response);
  return 0;
}

// Events are delivered and hence counted by the stand-in, which adds its numbers to this response and those
// of QPs and SRQs.
int destroy_cq(UverbsCall& call) {
  const uint32_t handle = call.request<ib_uverbs_destroy_cq>().cq_handle;
  const ObjectRecord* cq = call.find(ObjectKind::cq, handle);
  if (cq == nullptr) return EINVAL;
  if (cq->users != 0) return EBUSY;
  release_object(call.registry, handle);
  call.reply.core(ib_uverbs_destroy_cq_resp{});
  return 0;
}

}  // namespace uroce::daemon
