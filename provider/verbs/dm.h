// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Device memory (ibv_alloc_dm(3)). Our device has none of its own: it is memory of the process that programs
// reach through the copy functions and through regions only.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce::verbs {

// Of one context, all allocations together.
constexpr uint64_t kMaxDeviceMemory = uint64_t{1} << 20;

// The memory of an allocation and of its imports.
struct DeviceMemoryBlock {
  std::byte* memory = nullptr;
  size_t length = 0;
  std::atomic<uint32_t> regions{0};
  ~DeviceMemoryBlock();
  bool contains(uint64_t offset, size_t bytes) const { return offset <= length && bytes <= length - offset; }
};

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attributes);
int free_dm(ibv_dm* dm);  // EBUSY while a region refers to it
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access);

ibv_dm* import_dm(ibv_context* context, uint32_t handle);  // EINVAL: no such memory
void unimport_dm(ibv_dm* dm);

}  // namespace uroce::verbs
