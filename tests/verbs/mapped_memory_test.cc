// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/mapped_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace uroce::verbs {
namespace {

class Mapping {
 public:
  explicit Mapping(size_t bytes, int protection = PROT_READ | PROT_WRITE)
      : bytes_(bytes),
        start_(mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(start_, MAP_FAILED);
  }
  ~Mapping() { munmap(start_, bytes_); }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(start_); }
  size_t bytes() const { return bytes_; }
  void protect(size_t offset, size_t count, int protection) {
    EXPECT_EQ(mprotect(static_cast<char*>(start_) + offset, count, protection), 0);
  }
  void unmap(size_t offset, size_t count) {
    EXPECT_EQ(munmap(static_cast<char*>(start_) + offset, count), 0);
  }
  size_t resident_pages() const {
    std::vector<unsigned char> present(bytes_ / page());
    EXPECT_EQ(mincore(start_, bytes_, present.data()), 0);
    size_t count = 0;
    for (unsigned char p : present) count += p & 1;
    return count;
  }
  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

 private:
  size_t bytes_;
  void* start_;
};

TEST(MappedMemory, what_is_there_is_accepted) {
  const Mapping memory(16 * Mapping::page());
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), true), 0);
  EXPECT_EQ(check_mapped(memory.address() + 100, 1, true), 0);
  EXPECT_EQ(check_mapped(memory.address() + memory.bytes() - 1, 1, false), 0);
}

TEST(MappedMemory, nothing_is_there_for_a_length_of_zero_and_that_is_fine) {
  EXPECT_EQ(check_mapped(0, 0, true), 0);
}

TEST(MappedMemory, unmapped_memory_is_refused) {
  Mapping memory(4 * Mapping::page());
  memory.unmap(2 * Mapping::page(), Mapping::page());
  EXPECT_EQ(check_mapped(memory.address() + 2 * Mapping::page(), 8, false), EFAULT);
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), false), EFAULT);
  EXPECT_EQ(check_mapped(memory.address(), 2 * Mapping::page(), false), 0);
  EXPECT_EQ(check_mapped(memory.address() + Mapping::page(), Mapping::page() + 1, false), EFAULT);
  EXPECT_EQ(check_mapped(8, 8, false), EFAULT);
}

TEST(MappedMemory, read_only_memory_may_be_read) {
  const Mapping memory(4 * Mapping::page(), PROT_READ);
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), false), 0);
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), true), EFAULT);
}

TEST(MappedMemory, memory_without_rights_is_refused) {
  const Mapping memory(4 * Mapping::page(), PROT_NONE);
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), false), EFAULT);
}

TEST(MappedMemory, a_range_beyond_the_end_of_the_address_space_is_refused) {
  EXPECT_EQ(check_mapped(~uintptr_t{0} - 10, 100, false), EFAULT);
}

TEST(MappedMemory, a_large_sparse_range_is_looked_up_and_stays_sparse) {
  Mapping memory(kPopulateBytes * 4);
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), true), 0);
  EXPECT_EQ(memory.resident_pages(), 0u);
  memory.protect(kPopulateBytes * 3, Mapping::page(), PROT_READ);
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), true), EFAULT);
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), false), 0);
  memory.unmap(kPopulateBytes * 2, Mapping::page());
  EXPECT_EQ(check_mapped(memory.address(), memory.bytes(), false), EFAULT);
}

TEST(MappedMemory, errno_is_kept) {
  errno = ENOTDIR;
  EXPECT_EQ(check_mapped(8, 8, false), EFAULT);
  EXPECT_EQ(errno, ENOTDIR);
}

}  // namespace
}  // namespace uroce::verbs
