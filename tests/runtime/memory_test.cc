// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace uroce::runtime {
namespace {

void programs_own_handler(int) {
  _exit(42);
}

// Both ways: with our fault handlers, and with a program that took them away.
class ProgramMemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    memory_ = ProgramMemory::open();
    ASSERT_NE(memory_, nullptr);
    sigaction(SIGSEGV, nullptr, &saved_);
    if (!GetParam()) signal(SIGSEGV, programs_own_handler);
    memory_->check_handlers();
    ASSERT_EQ(memory_->direct(), GetParam());
  }
  void TearDown() override { sigaction(SIGSEGV, &saved_, nullptr); }

  std::unique_ptr<ProgramMemory> memory_;
  struct sigaction saved_ {};
};

uint64_t va_of(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

TEST_P(ProgramMemoryTest, moves_bytes_both_ways_beyond_the_window) {
  std::vector<std::byte> source(200'000), destination(200'000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 31);
  ASSERT_TRUE(memory_->write(va_of(destination.data()), source.data(), source.size()));
  EXPECT_EQ(source, destination);
  std::vector<std::byte> back(200'000);
  ASSERT_TRUE(memory_->read(back.data(), va_of(destination.data()), back.size()));
  EXPECT_EQ(source, back);
}

TEST_P(ProgramMemoryTest, unmapped_and_read_only_memory_is_refused) {
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::byte bytes[64] = {};
  uint64_t original = 0;
  EXPECT_FALSE(memory_->write(va_of(page), bytes, sizeof bytes));
  EXPECT_TRUE(memory_->read(bytes, va_of(page), sizeof bytes));
  EXPECT_FALSE(memory_->fetch_add(va_of(page), 1, original));
  munmap(page, 4096);
  EXPECT_FALSE(memory_->write(va_of(page), bytes, sizeof bytes));
  EXPECT_FALSE(memory_->read(bytes, va_of(page), sizeof bytes));
  EXPECT_FALSE(memory_->compare_swap(va_of(page), 0, 1, original));
  EXPECT_FALSE(memory_->read(bytes, 0, sizeof bytes));
  EXPECT_FALSE(memory_->read(bytes, ~uint64_t{0} - 100, sizeof bytes));
}

TEST_P(ProgramMemoryTest, atomics) {
  alignas(8) uint64_t word = 7;
  uint64_t original = 0;
  EXPECT_TRUE(memory_->fetch_add(va_of(&word), 5, original));
  EXPECT_EQ(original, 7u);
  EXPECT_TRUE(memory_->compare_swap(va_of(&word), 12, 1, original));
  EXPECT_EQ(original, 12u);
  EXPECT_EQ(word, 1u);
}

INSTANTIATE_TEST_SUITE_P(BothWays, ProgramMemoryTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "direct" : "through_memfd"; });

}  // namespace
}  // namespace uroce::runtime
