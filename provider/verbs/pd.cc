// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/pd.h"

#include <memory>

#include "provider/verbs/boundary.h"
#include "provider/verbs/context.h"

namespace uroce::verbs {

ibv_pd* alloc_pd(ibv_context* base) {
  Context& context = Context::of(base);
  if (int error = context.unusable(); error != 0) return fail(error);
  auto pd = std::make_unique<ProtectionDomain>();
  ib_uverbs_alloc_pd_resp response{};
  if (int error = call(context.port(), IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, response);
      error != 0) {
    return fail(error);
  }
  pd->use.begin(context);
  pd->context = base;
  pd->handle = response.pd_handle;
  context.shared().imports.add_pd(pd->handle);
  pd->real = pd.get();
  return pd.release();
}

int dealloc_pd(ibv_pd* base) {
  auto* pd = static_cast<ProtectionDomain*>(base);
  Context& context = Context::of(base->context);
  if (context.closed()) {
    delete pd;
    return 0;
  }
  if (int error = context.refused(); error != 0) return error;
  if (pd->users.load(std::memory_order_acquire) != 0) return EBUSY;
  if (pd->is_parent()) {
    pd->real->users.fetch_sub(1, std::memory_order_acq_rel);
    if (pd->thread_domain != nullptr) pd->thread_domain->users.fetch_sub(1, std::memory_order_acq_rel);
  } else {
    const ib_uverbs_dealloc_pd request{.pd_handle = pd->handle};
    const int error = call(context.port(), IB_USER_VERBS_CMD_DEALLOC_PD, request);
    if (error != 0 && !context.data().fatal()) return error;
    context.shared().imports.remove_pd(pd->handle);
  }
  delete pd;
  return 0;
}

ibv_pd* import_pd(ibv_context* base, uint32_t handle) {
  Context& context = Context::of(base);
  if (int error = context.unusable(); error != 0) return fail(error);
  if (!context.shared().imports.has_pd(handle)) return fail(EINVAL);
  auto pd = std::make_unique<ProtectionDomain>();
  pd->use.begin(context);
  pd->context = base;
  pd->handle = handle;
  pd->real = pd.get();
  return pd.release();
}

void unimport_pd(ibv_pd* pd) {
  delete static_cast<ProtectionDomain*>(pd);
}

ibv_td* alloc_td(ibv_context* base, ibv_td_init_attr* attributes) {
  if (int error = Context::of(base).unusable(); error != 0) return fail(error);
  if (attributes->comp_mask != 0) return fail(EOPNOTSUPP);
  auto td = std::make_unique<ThreadDomain>();
  td->use.begin(Context::of(base));
  td->context = base;
  return td.release();
}

int dealloc_td(ibv_td* base) {
  auto* td = static_cast<ThreadDomain*>(base);
  Context& context = Context::of(base->context);
  if (context.closed()) {
    delete td;
    return 0;
  }
  if (int error = context.refused(); error != 0) return error;
  if (td->users.load(std::memory_order_acquire) != 0) return EBUSY;
  delete td;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* base, ibv_parent_domain_init_attr* attributes) {
  constexpr uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (int error = Context::of(base).unusable(); error != 0) return fail(error);
  if ((attributes->comp_mask & ~known) != 0) return fail(EOPNOTSUPP);
  if (attributes->pd == nullptr) return fail(EINVAL);
  auto pd = std::make_unique<ProtectionDomain>();
  ProtectionDomain& real = ProtectionDomain::of(attributes->pd);
  pd->use.begin(Context::of(base));
  pd->context = base;
  pd->handle = real.handle;
  pd->real = &real;
  real.users.fetch_add(1, std::memory_order_relaxed);
  if (attributes->td != nullptr) {
    pd->thread_domain = static_cast<ThreadDomain*>(attributes->td);
    pd->thread_domain->users.fetch_add(1, std::memory_order_relaxed);
  }
  return pd.release();
}

}  // namespace uroce::verbs
