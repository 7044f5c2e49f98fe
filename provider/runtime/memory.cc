// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/memory.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provider/runtime/fault_copy.h"

namespace uroce::runtime {
namespace {

constexpr size_t kWindowBytes = 64 << 10;

// The raw calls: glibc's wrappers are cancellation points, and the lane is held here.
long pread_raw(int fd, void* to, size_t bytes, long offset) {
  return syscall(SYS_pread64, fd, to, bytes, offset);
}
long pwrite_raw(int fd, const void* from, size_t bytes, long offset) {
  return syscall(SYS_pwrite64, fd, from, bytes, offset);
}

}  // namespace

std::unique_ptr<ProgramMemory> ProgramMemory::open() {
  const int memfd = memfd_create("uroce-copy", MFD_CLOEXEC);
  if (memfd < 0) return nullptr;
  void* window = MAP_FAILED;
  if (ftruncate(memfd, kWindowBytes) == 0) {
    window = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  }
  if (window == MAP_FAILED) {
    const int error = errno;
    close(memfd);
    errno = error;
    return nullptr;
  }
  std::unique_ptr<ProgramMemory> memory(new ProgramMemory(memfd, static_cast<std::byte*>(window)));
  memory->direct_ = install_fault_handlers();
  return memory;
}

ProgramMemory::~ProgramMemory() {
  munmap(window_, kWindowBytes);
  close(memfd_);
}

bool ProgramMemory::write(uint64_t va, const std::byte* source, size_t bytes) {
  if (direct_) return copy_or_fault(reinterpret_cast<void*>(va), source, bytes);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kWindowBytes);
    std::memcpy(window_, source, part);
    if (pread_raw(memfd_, reinterpret_cast<void*>(va), part, 0) != static_cast<long>(part)) return false;
    va += part, source += part, bytes -= part;
  }
  return true;
}

bool ProgramMemory::read(std::byte* destination, uint64_t va, size_t bytes) {
  if (direct_) return copy_or_fault(destination, reinterpret_cast<const void*>(va), bytes);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kWindowBytes);
    if (pwrite_raw(memfd_, reinterpret_cast<const void*>(va), part, 0) != static_cast<long>(part))
      return false;
    std::memcpy(destination, window_, part);
    va += part, destination += part, bytes -= part;
  }
  return true;
}

// Asks the kernel to add zero to half of the word: an atomic that answers EFAULT where ours would raise a
// signal, and changes nothing. The page can still vanish before our own atomic; the program's handler then
// sees the fault.
bool ProgramMemory::word_is_there(uint64_t va) {
  uint32_t nobody_waits_here = 0;
  constexpr uint32_t kAddZero = (uint32_t{FUTEX_OP_ADD} << 28) | (uint32_t{FUTEX_OP_CMP_EQ} << 24);
  return syscall(SYS_futex, &nobody_waits_here, FUTEX_WAKE_OP_PRIVATE, 0, 0, va, kAddZero) >= 0;
}

bool ProgramMemory::compare_swap(uint64_t va, uint64_t compare, uint64_t swap, uint64_t& original) {
  if (!direct_ && !word_is_there(va)) return false;
  return compare_swap_or_fault(reinterpret_cast<uint64_t*>(va), compare, swap, original);
}

bool ProgramMemory::fetch_add(uint64_t va, uint64_t add, uint64_t& original) {
  if (!direct_ && !word_is_there(va)) return false;
  return fetch_add_or_fault(reinterpret_cast<uint64_t*>(va), add, original);
}

void ProgramMemory::check_handlers() {
  direct_ = fault_handlers_in_place();
}

}  // namespace uroce::runtime
