// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace uroce::verbs {

namespace {

// The kernel's own list of mappings, in ascending order. The judge where populating fails: it may fail for
// other reasons than the rights (old kernel, special mappings, memory that is short).
int check_by_mappings(uintptr_t va, size_t bytes, bool write) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  if (maps == nullptr) return 0;  // nobody to ask; the data path survives a fault
  const uintptr_t end = va + bytes;
  char line[512];
  while (va < end && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    uintptr_t from = 0, to = 0;
    char rights[5] = "";
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, rights) != 3) continue;
    if (to <= va) continue;
    if (from > va) return EFAULT;
    if (rights[0] != 'r' || (write && rights[1] != 'w')) return EFAULT;
    va = to;
  }
  return va < end ? EFAULT : 0;
}

}  // namespace

int check_mapped(uintptr_t va, size_t bytes, bool write) {
  if (bytes == 0) return 0;
  if (va + bytes < va) return EFAULT;
  if (bytes <= kPopulateBytes) {
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t from = va & ~(page - 1);
    const uintptr_t to = (va + bytes + page - 1) & ~(page - 1);
    const int saved = errno;
    const int result =
        madvise(reinterpret_cast<void*>(from), to - from, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    errno = saved;
    if (result == 0) return 0;
  }
  return check_by_mappings(va, bytes, write);
}

}  // namespace uroce::verbs
