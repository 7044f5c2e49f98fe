// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Memory regions. Nothing is pinned: the engine copies by address and survives a range that goes away.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "provider/engine/attributes.h"
#include "provider/verbs/context.h"
#include "provider/verbs/dma_buf.h"
#include "provider/verbs/private_abi.h"

namespace uroce::verbs {

struct MemoryRegion : abi::verbs_mr {
  ContextUse use;
  engine::MrConfig config;                               // as the engine has it
  std::atomic<uint32_t>* device_memory_users = nullptr;  // of the device memory it lies in
  DmaBufMapping dma_buf;                                 // what it is a registration of, or nothing

  static MemoryRegion& of(ibv_mr* region) {
    return static_cast<MemoryRegion&>(*reinterpret_cast<abi::verbs_mr*>(region));
  }
};

// EINVAL: bits that are unknown, remote write or atomic without local write, an iova with another offset in
// the page than the address. EFAULT: memory that is not there or lacks the rights. A region of length 0 is
// legal and permits accesses of length 0.
ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access);
// Bytes [offset, offset + length) of a dma-buf whose exporter lets programs map it. EBADF, EINVAL: `fd` is
// none, the range is not in it, or offset and iova differ within the page; else the exporter's errno.
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
int dereg_mr(abi::verbs_mr* region);  // EBUSY with windows bound
int rereg_mr(abi::verbs_mr* region, int flags, ibv_pd* pd, void* address, size_t length, int access);
// Another name of a region, by its handle, without its address. EINVAL: no such region in the domain.
ibv_mr* import_mr(ibv_pd* pd, uint32_t handle);
void unimport_mr(ibv_mr* mr);
ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list, uint32_t count);

}  // namespace uroce::verbs
