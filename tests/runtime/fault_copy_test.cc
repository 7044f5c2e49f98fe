// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/fault_copy.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

namespace uroce::runtime {
namespace {

constexpr size_t kPage = 4096;

// One page that is there and one behind it that is not.
class Cliff {
 public:
  explicit Cliff(int protection_behind = PROT_NONE) {
    base_ = static_cast<char*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + kPage, kPage, protection_behind);
  }
  ~Cliff() { munmap(base_, 2 * kPage); }
  char* edge() { return base_ + kPage; }

 private:
  char* base_;
};

TEST(FaultCopy, copies_every_size_and_alignment) {
  ASSERT_TRUE(install_fault_handlers());
  std::vector<char> source(1200), destination(1200);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 7 + 1);
  for (size_t bytes :
       {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 257, 263, 264, 265, 300, 511, 512, 1000}) {
    for (size_t from = 0; from < 9; ++from) {
      for (size_t to = 0; to < 9; ++to) {
        std::fill(destination.begin(), destination.end(), 0);
        ASSERT_TRUE(copy_or_fault(destination.data() + 64 + to, source.data() + from, bytes));
        ASSERT_EQ(std::memcmp(destination.data() + 64 + to, source.data() + from, bytes), 0)
            << bytes << ' ' << from << ' ' << to;
        ASSERT_EQ(destination[63 + to], 0);
        ASSERT_EQ(destination[64 + to + bytes], 0) << bytes;
      }
    }
  }
}

TEST(FaultCopy, fault_at_destination_and_source_is_an_answer) {
  ASSERT_TRUE(install_fault_handlers());
  Cliff cliff;
  char buffer[1000] = {};
  for (size_t inside : {0, 1, 8, 100, 500, 999}) {
    EXPECT_FALSE(copy_or_fault(cliff.edge() - inside, buffer, sizeof buffer)) << inside;
    EXPECT_FALSE(copy_or_fault(buffer, cliff.edge() - inside, sizeof buffer)) << inside;
  }
  EXPECT_TRUE(copy_or_fault(cliff.edge() - sizeof buffer, buffer, sizeof buffer));
}

TEST(FaultCopy, write_to_read_only_page_fails) {
  ASSERT_TRUE(install_fault_handlers());
  Cliff cliff(PROT_READ);
  const char byte = 1;
  EXPECT_FALSE(copy_or_fault(cliff.edge(), &byte, 1));
  char out;
  EXPECT_TRUE(copy_or_fault(&out, cliff.edge(), 1));
}

TEST(FaultCopy, truncated_file_gives_an_answer_too) {
  ASSERT_TRUE(install_fault_handlers());
  const int fd = memfd_create("t", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, kPage), 0);
  char* map = static_cast<char*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  map[0] = 1;
  ASSERT_EQ(ftruncate(fd, 0), 0);
  char out;
  EXPECT_FALSE(copy_or_fault(&out, map, 1));
  EXPECT_FALSE(copy_or_fault(map, &out, 1));
  munmap(map, kPage);
  close(fd);
}

TEST(FaultCopy, atomics_work_and_fault) {
  ASSERT_TRUE(install_fault_handlers());
  alignas(8) uint64_t word = 5;
  uint64_t original = 0;
  EXPECT_TRUE(compare_swap_or_fault(&word, 5, 9, original));
  EXPECT_EQ(original, 5u);
  EXPECT_EQ(word, 9u);
  EXPECT_TRUE(compare_swap_or_fault(&word, 5, 1, original));
  EXPECT_EQ(original, 9u);
  EXPECT_EQ(word, 9u);
  EXPECT_TRUE(fetch_add_or_fault(&word, 3, original));
  EXPECT_EQ(original, 9u);
  EXPECT_EQ(word, 12u);
  Cliff cliff;
  auto* gone = reinterpret_cast<uint64_t*>(cliff.edge());
  EXPECT_FALSE(compare_swap_or_fault(gone, 0, 1, original));
  EXPECT_FALSE(fetch_add_or_fault(gone, 1, original));
}

TEST(FaultCopy, thread_with_all_signals_blocked_survives_after_unblocking) {
  ASSERT_TRUE(install_fault_handlers());
  Cliff cliff;
  bool copied = true;
  std::thread thread([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    unblock_faults_of_this_thread();
    char byte = 0;
    copied = copy_or_fault(cliff.edge(), &byte, 1);
  });
  thread.join();
  EXPECT_FALSE(copied);
}

using FaultCopyDeath = ::testing::Test;

TEST(FaultCopyDeath, foreign_fault_reaches_the_default_action) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        install_fault_handlers();
        Cliff cliff;
        *const_cast<volatile char*>(cliff.edge()) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

void programs_own_handler(int) {
  _exit(42);
}

TEST(FaultCopyDeath, foreign_fault_reaches_the_programs_earlier_handler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        signal(SIGSEGV, programs_own_handler);
        install_fault_handlers();
        Cliff cliff;
        *const_cast<volatile char*>(cliff.edge()) = 1;
      },
      ::testing::ExitedWithCode(42), "");
}

TEST(FaultCopy, replaced_handler_is_noticed) {
  ASSERT_TRUE(install_fault_handlers());
  EXPECT_TRUE(fault_handlers_in_place());
  struct sigaction ours;
  sigaction(SIGSEGV, nullptr, &ours);
  signal(SIGSEGV, programs_own_handler);
  EXPECT_FALSE(fault_handlers_in_place());
  sigaction(SIGSEGV, &ours, nullptr);
  EXPECT_TRUE(fault_handlers_in_place());
}

}  // namespace
}  // namespace uroce::runtime
