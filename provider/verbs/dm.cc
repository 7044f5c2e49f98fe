// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/dm.h"

#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "provider/verbs/boundary.h"
#include "provider/verbs/context.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/private_abi.h"

namespace uroce::verbs {

struct DeviceMemory : abi::verbs_dm {
  ContextUse use;
  std::byte* memory = nullptr;
  size_t length = 0;
  std::atomic<uint32_t> regions{0};

  static DeviceMemory& of(ibv_dm* base) {
    return static_cast<DeviceMemory&>(*reinterpret_cast<abi::verbs_dm*>(base));
  }
  // Copies are made of whole words, as on devices that have such memory.
  static bool aligned(uint64_t offset, size_t bytes) { return ((offset | bytes) & 3) == 0; }
  bool contains(uint64_t offset, size_t bytes) const { return offset <= length && bytes <= length - offset; }
};

namespace {

// No verb but the registration needs the data path: device memory also works in a forked child.

// Programs may ask for so much alignment; a page has it.
constexpr uint32_t kMaxLogAlign = 12;

int copy_to(ibv_dm* base, uint64_t offset, const void* host, size_t bytes) noexcept {
  DeviceMemory& dm = DeviceMemory::of(base);
  if (!DeviceMemory::aligned(offset, bytes)) return EINVAL;
  if (!dm.contains(offset, bytes)) return EFAULT;
  std::memcpy(dm.memory + offset, host, bytes);
  return 0;
}

int copy_from(void* host, ibv_dm* base, uint64_t offset, size_t bytes) noexcept {
  DeviceMemory& dm = DeviceMemory::of(base);
  if (!DeviceMemory::aligned(offset, bytes)) return EINVAL;
  if (!dm.contains(offset, bytes)) return EFAULT;
  std::memcpy(host, dm.memory + offset, bytes);
  return 0;
}

}  // namespace

ibv_dm* alloc_dm(ibv_context* base, ibv_alloc_dm_attr* attributes) {
  Context& context = Context::of(base);
  if (attributes->comp_mask != 0) return fail(EOPNOTSUPP);
  if (attributes->length == 0 || attributes->log_align_req > kMaxLogAlign) return fail(EINVAL);
  auto dm = std::make_unique<DeviceMemory>();
  if (!context.take_device_memory(attributes->length)) return fail(ENOMEM);
  void* const memory =
      mmap(nullptr, attributes->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    context.give_device_memory(attributes->length);
    return fail(ENOMEM);
  }
  dm->memory = static_cast<std::byte*>(memory);
  dm->length = attributes->length;
  dm->use.begin(context);
  dm->dm.context = base;
  dm->dm.memcpy_to_dm = copy_to;
  dm->dm.memcpy_from_dm = copy_from;
  return &dm.release()->dm;
}

int free_dm(ibv_dm* base) {
  DeviceMemory& dm = DeviceMemory::of(base);
  Context& context = Context::of(base->context);
  if (dm.regions.load(std::memory_order_acquire) != 0) return EBUSY;
  munmap(dm.memory, dm.length);
  context.give_device_memory(dm.length);
  delete &dm;
  return 0;
}

// Addresses of such a region count from its start.
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* base, uint64_t offset, size_t length, unsigned access) {
  DeviceMemory& dm = DeviceMemory::of(base);
  if (!dm.contains(offset, length)) return fail(EINVAL);
  if ((access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_MW_BIND)) != 0)
    return fail(EOPNOTSUPP);
  ibv_mr* const mr =
      reg_mr(pd, dm.memory + offset, length, 0, static_cast<int>(access | IBV_ACCESS_ZERO_BASED));
  if (mr == nullptr) return nullptr;
  mr->addr = nullptr;
  dm.regions.fetch_add(1, std::memory_order_relaxed);
  MemoryRegion::of(mr).device_memory_users = &dm.regions;
  return mr;
}

}  // namespace uroce::verbs
