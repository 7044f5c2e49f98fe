// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Zeroed memory straight from the kernel: the program's allocator is not ours to call.
#ifndef UROCE_PRELOAD_MEMORY_H
#define UROCE_PRELOAD_MEMORY_H

#include <stddef.h>
#include <sys/mman.h>

#include "kmod-shim/preload/raw.h"

static inline void* memory_map(size_t bytes) {
  const long at = RAW(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  return at < 0 && at > -4096 ? NULL : (void*)at;
}

// May move; what is new is zero. NULL: the old memory stays as it is.
static inline void* memory_grow(void* old, size_t old_bytes, size_t new_bytes) {
  if (old == NULL) return memory_map(new_bytes);
  const long at = RAW(SYS_mremap, old, old_bytes, new_bytes, MREMAP_MAYMOVE, NULL);
  return at < 0 && at > -4096 ? NULL : (void*)at;
}

static inline void memory_unmap(void* at, size_t bytes) {
  if (at != NULL) RAW(SYS_munmap, at, bytes);
}

#endif
