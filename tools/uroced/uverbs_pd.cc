// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

int alloc_pd(UverbsCall& call) {
  const uint32_t handle = call.create(ObjectKind::pd, 0);
  if (handle == 0) return errno;
  call.reply.core(ib_uverbs_alloc_pd_resp{.pd_handle = handle});
  return 0;
}

int dealloc_pd(UverbsCall& call) {
  const uint32_t handle = call.request<ib_uverbs_dealloc_pd>().pd_handle;
  const ObjectRecord* pd = call.find(ObjectKind::pd, handle);
  if (pd == nullptr) return EINVAL;
  if (pd->users != 0) return EBUSY;
  release_object(call.registry, handle);
  return 0;
}

}  // namespace uroce::daemon
