// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Memory regions and windows. Nothing is pinned here: the provider reaches the memory, the record is for keys
// and for `rdma resource`.
#include <rdma/ib_user_ioctl_verbs.h>

#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kRemoteChange = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kKnownAccess =
    IB_UVERBS_ACCESS_LOCAL_WRITE | kRemoteChange | IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_MW_BIND |
    IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_ON_DEMAND | IB_UVERBS_ACCESS_HUGETLB | 1u << 8 |
    1u << 9 /* flush */ | IB_UVERBS_ACCESS_OPTIONAL_RANGE;
constexpr uint64_t kPageMask = 4095;
constexpr uint32_t kChangeTranslation = 1, kChangePd = 2, kChangeAccess = 4;  // IB_MR_REREG_*

bool access_is_legal(uint32_t access) {
  // IBA 11.2.8.2: changes from afar need the right to change at home.
  const bool changes = (access & kRemoteChange) != 0;
  return (access & ~kKnownAccess) == 0 && (!changes || (access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0);
}

bool same_page_offset(uint64_t start, uint64_t iova) {
  return ((start ^ iova) & kPageMask) == 0;
}

}  // namespace

int reg_mr(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_reg_mr>();
  if (!same_page_offset(request.start, request.hca_va) || !access_is_legal(request.access_flags))
    return EINVAL;
  if (call.find(ObjectKind::pd, request.pd_handle) == nullptr) return EINVAL;
  const uint32_t handle = call.create(ObjectKind::mr, 0);
  if (handle == 0) return errno;
  const uint32_t key = call.registry.fresh_key(handle);
  call.edit(handle).mr = {request.start,     request.length,       request.hca_va,
                          request.pd_handle, request.access_flags, key};
  call.registry.add_user(request.pd_handle, 1);
  ib_uverbs_reg_mr_resp response{};
  response.mr_handle = handle;
  response.lkey = response.rkey = key;
  call.reply.core(response);
  return 0;
}

int rereg_mr(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_rereg_mr>();
  if (request.flags == 0 || (request.flags & ~(kChangeTranslation | kChangePd | kChangeAccess)) != 0)
    return EINVAL;
  const bool translation = (request.flags & kChangeTranslation) != 0;
  if (translation && !same_page_offset(request.start, request.hca_va)) return EINVAL;
  if ((request.flags & kChangeAccess) != 0 && !access_is_legal(request.access_flags)) return EINVAL;
  if (call.find(ObjectKind::mr, request.mr_handle) == nullptr) return EINVAL;
  if ((request.flags & kChangePd) != 0 && call.find(ObjectKind::pd, request.pd_handle) == nullptr)
    return EINVAL;

  MrBody& mr = call.edit(request.mr_handle).mr;
  if (translation) {
    mr.start = request.start;
    mr.length = request.length;
    mr.iova = request.hca_va;
  }
  if ((request.flags & kChangePd) != 0) {
    call.registry.add_user(mr.pd, -1);
    mr.pd = request.pd_handle;
    call.registry.add_user(mr.pd, 1);
  }
  if ((request.flags & kChangeAccess) != 0) mr.access = request.access_flags;
  // The key stays: it is the same region, and peers hold it.
  ib_uverbs_rereg_mr_resp response{};
  response.lkey = response.rkey = mr.key;
  call.reply.core(response);
  return 0;
}

int dereg_mr(UverbsCall& call) {
  const uint32_t handle = call.request<ib_uverbs_dereg_mr>().mr_handle;
  const ObjectRecord* mr = call.find(ObjectKind::mr, handle);
  if (mr == nullptr) return EINVAL;
  release_object(call.registry, handle);
  return 0;
}

int alloc_mw(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_alloc_mw>();
  if (request.mw_type != 1 && request.mw_type != 2) return EINVAL;
  if (call.find(ObjectKind::pd, request.pd_handle) == nullptr) return EINVAL;
  const uint32_t handle = call.create(ObjectKind::mw, 0);
  if (handle == 0) return errno;
  const uint32_t key = call.registry.fresh_key(handle);
  call.edit(handle).mw = {request.pd_handle, key};
  call.registry.add_user(request.pd_handle, 1);
  call.reply.core(ib_uverbs_alloc_mw_resp{.mw_handle = handle, .rkey = key});
  return 0;
}

int dealloc_mw(UverbsCall& call) {
  const uint32_t handle = call.request<ib_uverbs_dealloc_mw>().mw_handle;
  if (call.find(ObjectKind::mw, handle) == nullptr) return EINVAL;
  release_object(call.registry, handle);
  return 0;
}

}  // namespace uroce::daemon
