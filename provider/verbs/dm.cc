// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// No verb but the registration needs the data path: device memory also works in a forked child.
#include "provider/verbs/dm.h"

#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "provider/verbs/boundary.h"
#include "provider/verbs/context.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/private_abi.h"

namespace uroce::verbs {

DeviceMemoryBlock::~DeviceMemoryBlock() {
  if (memory != nullptr) munmap(memory, length);
}

namespace {

struct DeviceMemory : abi::verbs_dm {
  ContextUse use;
  std::shared_ptr<DeviceMemoryBlock> block;

  static DeviceMemory& of(ibv_dm* base) {
    return static_cast<DeviceMemory&>(*reinterpret_cast<abi::verbs_dm*>(base));
  }
};

// Programs may ask for so much alignment; a page has it.
constexpr uint32_t kMaxLogAlign = 12;

// Copies are made of whole words, as on devices that have such memory.
int check_copy(const DeviceMemory& dm, uint64_t offset, size_t bytes) {
  if (((offset | bytes) & 3) != 0) return EINVAL;
  return dm.block->contains(offset, bytes) ? 0 : EFAULT;
}

int copy_to(ibv_dm* base, uint64_t offset, const void* host, size_t bytes) noexcept {
  const DeviceMemory& dm = DeviceMemory::of(base);
  if (int error = check_copy(dm, offset, bytes); error != 0) return error;
  std::memcpy(dm.block->memory + offset, host, bytes);
  return 0;
}

int copy_from(void* host, ibv_dm* base, uint64_t offset, size_t bytes) noexcept {
  const DeviceMemory& dm = DeviceMemory::of(base);
  if (int error = check_copy(dm, offset, bytes); error != 0) return error;
  std::memcpy(host, dm.block->memory + offset, bytes);
  return 0;
}

// The object that a program holds, of its own allocation or of an import.
ibv_dm* make_handle(Context& context, std::shared_ptr<DeviceMemoryBlock> block, uint32_t handle) {
  auto dm = std::make_unique<DeviceMemory>();
  dm->use.begin(context);
  dm->block = std::move(block);
  dm->dm.context = context.base();
  dm->dm.memcpy_to_dm = copy_to;
  dm->dm.memcpy_from_dm = copy_from;
  dm->dm.handle = dm->handle = handle;
  return &dm.release()->dm;
}

}  // namespace

ibv_dm* alloc_dm(ibv_context* base, ibv_alloc_dm_attr* attributes) {
  SharedContext& shared = Context::of(base).shared();
  if (attributes->comp_mask != 0) return fail(EOPNOTSUPP);
  if (attributes->length == 0 || attributes->log_align_req > kMaxLogAlign) return fail(EINVAL);
  auto block = std::make_shared<DeviceMemoryBlock>();
  if (!shared.take_device_memory(attributes->length)) return fail(ENOMEM);
  void* const memory =
      mmap(nullptr, attributes->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    shared.give_device_memory(attributes->length);
    return fail(ENOMEM);
  }
  block->memory = static_cast<std::byte*>(memory);
  block->length = attributes->length;
  return make_handle(Context::of(base), block, shared.imports.add_memory(block));
}

int free_dm(ibv_dm* base) {
  DeviceMemory& dm = DeviceMemory::of(base);
  SharedContext& shared = Context::of(base->context).shared();
  if (dm.block->regions.load(std::memory_order_acquire) != 0) return EBUSY;
  shared.imports.remove_memory(dm.handle);
  shared.give_device_memory(dm.block->length);
  delete &dm;
  return 0;
}

// Addresses of such a region count from its start.
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* base, uint64_t offset, size_t length, unsigned access) {
  DeviceMemoryBlock& block = *DeviceMemory::of(base).block;
  if (!block.contains(offset, length)) return fail(EINVAL);
  if ((access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_MW_BIND)) != 0)
    return fail(EOPNOTSUPP);
  ibv_mr* const mr =
      reg_mr(pd, block.memory + offset, length, 0, static_cast<int>(access | IBV_ACCESS_ZERO_BASED));
  if (mr == nullptr) return nullptr;
  mr->addr = nullptr;
  block.regions.fetch_add(1, std::memory_order_relaxed);
  MemoryRegion::of(mr).device_memory_users = &block.regions;
  return mr;
}

ibv_dm* import_dm(ibv_context* base, uint32_t handle) {
  Context& context = Context::of(base);
  auto block = context.shared().imports.memory(handle);
  return block != nullptr ? make_handle(context, std::move(block), handle) : fail(EINVAL);
}

void unimport_dm(ibv_dm* base) {
  delete &DeviceMemory::of(base);
}

}  // namespace uroce::verbs
