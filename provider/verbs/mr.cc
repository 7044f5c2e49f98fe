// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/mr.h"

#include <memory>

#include "provider/verbs/boundary.h"
#include "provider/verbs/context.h"
#include "provider/verbs/mapped_memory.h"
#include "provider/verbs/pd.h"

namespace uroce::verbs {

namespace {

using engine::Access;

constexpr uint32_t kOptional = IBV_ACCESS_OPTIONAL_RANGE;
constexpr uint32_t kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                            IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | Access::flush_global | kOptional;
// What the control side is told; how we reach the memory is our own matter.
constexpr uint32_t kForCommand = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr uint32_t kForDmaBuf = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
constexpr uint64_t kPageMask = 4095;

bool rights_are_legal(uint32_t access) {
  const bool remote_change = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  return (access & ~kKnown) == 0 && (!remote_change || (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

// Fills everything of `config` but the key. 0, EINVAL, EFAULT.
int describe(const ProtectionDomain& pd, const void* address, size_t length, uint64_t iova, uint32_t access,
             engine::MrConfig& config) {
  if (!rights_are_legal(access)) return EINVAL;
  config.pd = pd.number();
  config.host_va = reinterpret_cast<uintptr_t>(address);
  config.length = length;
  config.iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  config.access = access & ~kOptional;
  config.implicit = false;
  const bool on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
  if (on_demand && address == nullptr && length == SIZE_MAX) {
    config.implicit = true;
    return 0;
  }
  if ((access & IBV_ACCESS_ZERO_BASED) == 0 && ((config.host_va ^ iova) & kPageMask) != 0) return EINVAL;
  if (config.host_va + length < config.host_va || config.iova + length < config.iova) return EINVAL;
  if (on_demand) return 0;
  return check_mapped(config.host_va, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

int register_command(Context& context, const ProtectionDomain& pd, const engine::MrConfig& config,
                     ib_uverbs_reg_mr_resp& response) {
  ib_uverbs_reg_mr request{};
  request.start = config.host_va;
  request.length = config.length;
  request.hca_va = (config.access & IBV_ACCESS_ZERO_BASED) != 0 ? config.host_va : config.iova;
  request.pd_handle = pd.handle;
  request.access_flags = config.access & kForCommand;
  return call(context.port(), IB_USER_VERBS_CMD_REG_MR, request, response);
}

int deregister_command(Context& context, uint32_t handle) {
  return call(context.port(), IB_USER_VERBS_CMD_DEREG_MR, ib_uverbs_dereg_mr{.mr_handle = handle});
}

void remember(Context& context, const MemoryRegion& region) {
  context.shared().imports.set_region(
      region.mr.handle, {region.config.pd, region.mr.lkey, region.mr.rkey, region.config.length});
}

// Command, then engine; a failure half way leaves nothing behind.
ibv_mr* create(ProtectionDomain& pd, std::unique_ptr<MemoryRegion> region, abi::MrType type,
               uint32_t access) {
  Context& context = Context::of(pd.context);
  ib_uverbs_reg_mr_resp response{};
  if (int error = register_command(context, pd, region->config, response); error != 0) return fail(error);
  region->config.key = response.lkey;
  const engine::MrConfig& config = region->config;
  const int error = context.data().control(
      [&](engine::Engine& engine, engine::Time) { return engine.register_mr(config); });
  if (error != 0) {
    deregister_command(context, response.mr_handle);
    return fail(error);
  }
  region->use.begin(context);
  region->mr.context = pd.context;
  region->mr.pd = &pd;
  region->mr.addr = reinterpret_cast<void*>(config.host_va);
  region->mr.length = config.length;
  region->mr.handle = response.mr_handle;
  region->mr.lkey = response.lkey;
  region->mr.rkey = response.rkey;
  region->type = type;
  region->access = static_cast<int>(access);
  remember(context, *region);
  return &region.release()->mr;
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* base, void* address, size_t length, uint64_t iova, int access) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  if (int error = Context::of(pd.context).unusable(); error != 0) return fail(error);
  auto region = std::make_unique<MemoryRegion>();
  const auto rights = static_cast<uint32_t>(access);
  if (int error = describe(pd, address, length, iova, rights, region->config); error != 0) return fail(error);
  return create(pd, std::move(region), abi::MrType::mr, rights);
}

ibv_mr* reg_dmabuf_mr(ibv_pd* base, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  if (int error = Context::of(pd.context).unusable(); error != 0) return fail(error);
  const auto rights = static_cast<uint32_t>(access);
  if ((rights & ~kForDmaBuf) != 0) return fail(EINVAL);
  auto region = std::make_unique<MemoryRegion>();
  const bool write = (rights & IBV_ACCESS_LOCAL_WRITE) != 0;
  if (int error = region->dma_buf.map(fd, offset, length, write); error != 0) return fail(error);
  if (int error = describe(pd, region->dma_buf.at(offset), length, iova, rights, region->config); error != 0)
    return fail(error);
  ibv_mr* const made = create(pd, std::move(region), abi::MrType::dmabuf, rights);
  if (made != nullptr) made->addr = reinterpret_cast<void*>(offset);
  return made;
}

ibv_mr* import_mr(ibv_pd* base, uint32_t handle) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  Context& context = Context::of(pd.context);
  if (int error = context.unusable(); error != 0) return fail(error);
  const auto found = context.shared().imports.region(handle);
  if (!found || found->pd != pd.number()) return fail(EINVAL);
  auto region = std::make_unique<MemoryRegion>();
  region->use.begin(context);
  region->mr.context = pd.context;
  region->mr.pd = base;
  region->mr.length = found->length;
  region->mr.handle = handle;
  region->mr.lkey = found->lkey;
  region->mr.rkey = found->rkey;
  region->type = abi::MrType::imported;
  return &region.release()->mr;
}

void unimport_mr(ibv_mr* mr) {
  delete &MemoryRegion::of(mr);
}

ibv_mr* alloc_null_mr(ibv_pd* base) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  if (int error = Context::of(pd.context).unusable(); error != 0) return fail(error);
  auto region = std::make_unique<MemoryRegion>();
  region->config.pd = pd.number();
  region->config.length = SIZE_MAX;
  region->config.access = IBV_ACCESS_LOCAL_WRITE;
  region->config.null = true;
  return create(pd, std::move(region), abi::MrType::null, IBV_ACCESS_LOCAL_WRITE);
}

int dereg_mr(abi::verbs_mr* base) {
  auto* region = static_cast<MemoryRegion*>(base);
  Context& context = Context::of(region->mr.context);
  if (context.closed()) {
    delete region;
    return 0;
  }
  if (int error = context.refused(); error != 0) return error;
  const uint32_t key = region->config.key;
  const int error =
      context.data().control([&](engine::Engine& engine, engine::Time) { return engine.deregister_mr(key); });
  if (error != 0) return error;
  // The engine has forgotten it: from here on the region is gone, whatever a dying control side answers.
  context.shared().imports.remove_region(region->mr.handle);
  deregister_command(context, region->mr.handle);
  if (region->device_memory_users != nullptr) {
    region->device_memory_users->fetch_sub(1, std::memory_order_acq_rel);
  }
  delete region;
  return 0;
}

int rereg_mr(abi::verbs_mr* base, int flags, ibv_pd* new_pd, void* address, size_t length, int access) {
  auto* region = static_cast<MemoryRegion*>(base);
  Context& context = Context::of(region->mr.context);
  if (int error = context.unusable(); error != 0) return error;
  const bool translate = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  ProtectionDomain& pd = ProtectionDomain::of((flags & IBV_REREG_MR_CHANGE_PD) != 0 ? new_pd : region->mr.pd);
  const auto rights =
      static_cast<uint32_t>((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : region->access);

  engine::MrConfig config = region->config;
  void* const start = translate ? address : reinterpret_cast<void*>(config.host_va);
  const size_t bytes = translate ? length : config.length;
  const uint64_t iova = translate ? reinterpret_cast<uintptr_t>(address) : config.iova;
  if (int error = describe(pd, start, bytes, iova, rights, config); error != 0) return error;

  ib_uverbs_rereg_mr request{};
  request.mr_handle = region->mr.handle;
  request.flags = static_cast<uint32_t>(flags);
  request.start = config.host_va;
  request.length = config.length;
  request.hca_va = (config.access & IBV_ACCESS_ZERO_BASED) != 0 ? config.host_va : config.iova;
  request.pd_handle = pd.handle;
  request.access_flags = config.access & kForCommand;
  ib_uverbs_rereg_mr_resp response{};
  if (int error = call(context.port(), IB_USER_VERBS_CMD_REREG_MR, request, response); error != 0)
    return error;

  config.key = response.lkey;
  const uint32_t old_key = region->config.key;
  const int error = context.data().control(
      [&](engine::Engine& engine, engine::Time) { return engine.rereg_mr(old_key, config); });
  if (error != 0) return error;
  region->config = config;
  region->mr.lkey = response.lkey;
  region->mr.rkey = response.rkey;
  region->access = static_cast<int>(rights);
  remember(context, *region);
  return 0;
}

int advise_mr(ibv_pd* base, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list, uint32_t count) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  if (int error = Context::of(pd.context).unusable(); error != 0) return error;
  if ((flags & ~static_cast<uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0) return EINVAL;
  const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  if (!write && advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    return EOPNOTSUPP;
  // Our page faults are the CPU's own. Bringing the pages in now is all there is to do; a hint that cannot be
  // followed is no error unless the range is not there at all.
  for (uint32_t i = 0; i < count; ++i) {
    if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) continue;
    if (int error = check_mapped(list[i].addr, list[i].length, write); error != 0) return error;
  }
  return 0;
}

}  // namespace uroce::verbs
