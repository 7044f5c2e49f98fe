// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tools/uroced/keeper_line.h"
#include "tools/uroced/registry.h"

namespace uroce::daemon {
namespace {

Fd memory_with(uint32_t value) {
  Fd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(write(fd.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
  return fd;
}

uint32_t value_in(int fd) {
  uint32_t value = 0;
  EXPECT_EQ(pread(fd, &value, sizeof value, 0), static_cast<ssize_t>(sizeof value));
  return value;
}

TEST(KeptTable, finds_replaces_and_gives_away) {
  KeptTable table;
  table.put(Keep::slot_page, 1, memory_with(1), 0);
  table.put(Keep::slot_page, 2, memory_with(2), 0);
  table.put(Keep::slot_page, 1, memory_with(3), 0);
  EXPECT_EQ(value_in(table.find(Keep::slot_page, 1)->fd), 3u);
  EXPECT_EQ(table.find(Keep::connection, 1), nullptr);
  const Fd taken = table.take(Keep::slot_page, 1);
  EXPECT_EQ(value_in(taken.get()), 3u);
  EXPECT_EQ(table.find(Keep::slot_page, 1), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

TEST(KeptTable, a_mapped_page_is_sealed_against_other_writers) {
  KeptTable table;
  table.put(Keep::device_page, 0, memory_with(7), sizeof(uint32_t));
  const Kept* kept = table.find(Keep::device_page, 0);
  ASSERT_NE(kept->mapping, nullptr);
  *static_cast<uint32_t*>(kept->mapping) = 8;
  EXPECT_EQ(value_in(kept->fd), 8u);
  const uint32_t other = 9;
  EXPECT_LT(pwrite(kept->fd, &other, sizeof other, 0), 0);
  EXPECT_LT(ftruncate(kept->fd, 0), 0);
}

class Keeper : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    inheritance.state = state = create_state(inheritance.state_memory, why);
    ASSERT_NE(state, nullptr) << why;
  }
  void TearDown() override { munmap(state, sizeof *state); }

  int run(const std::function<int(Inheritance&)>& worker) {
    return run_keeper(std::move(inheritance), worker, [this](int status, const std::string& text) {
      announcements++;
      announced_status = status;
      announced_text = text;
    });
  }

  Inheritance inheritance;
  State* state = nullptr;
  int announcements = 0, announced_status = -1;
  std::string announced_text;
};

// The first worker hands over a descriptor and dies; the second finds it and leaves.
TEST_F(Keeper, a_new_worker_inherits_what_the_dead_one_gave) {
  const int status = run([](Inheritance& mine) {
    mine.state->generation++;
    KeeperLine line(std::move(mine.keeper), std::move(mine.kept));
    line.tell_ready();
    if (mine.state->generation == 1) {
      const Fd memory = memory_with(42);
      if (!line.keep(Keep::slot_page, 5, memory.get()) || !line.keep(Keep::slot_page, 6, memory.get()))
        return 1;
      line.drop(Keep::slot_page, 6);
      raise(SIGKILL);
    }
    const Fd inherited = line.take_inherited(Keep::slot_page, 5);
    mine.state->next_device_index = value_in(inherited.get());
    return line.inherited(Keep::slot_page, 6) == nullptr ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(state->generation, 2u);
  EXPECT_EQ(state->next_device_index, 42u);
  EXPECT_EQ(announcements, 1);
  EXPECT_EQ(announced_status, 0);
}

TEST_F(Keeper, only_a_workers_own_fault_is_a_crash) {
  EXPECT_EQ(run([](Inheritance& mine) {
              KeeperLine(std::move(mine.keeper), {}).tell_ready();
              switch (++mine.state->generation) {
                case 1: raise(SIGKILL); break;
                case 2:
                  mine.state->next_device_index = mine.state->crashed;
                  raise(SIGSEGV);
                  break;
                default: break;
              }
              return 0;
            }),
            0);
  EXPECT_EQ(state->generation, 3u);
  EXPECT_EQ(state->next_device_index, 0u) << "somebody killed it";
  EXPECT_EQ(state->crashed, 1u);
}

TEST_F(Keeper, a_first_worker_that_cannot_start_is_the_end_and_says_why) {
  EXPECT_EQ(run([](Inheritance& mine) {
              mine.state->generation++;
              snprintf(mine.state->trouble, sizeof mine.state->trouble, "no room");
              return 1;
            }),
            1);
  EXPECT_EQ(state->generation, 1u);
  EXPECT_EQ(announcements, 1);
  EXPECT_EQ(announced_status, 1);
  EXPECT_EQ(announced_text, "no room");
}

TEST_F(Keeper, a_descriptor_that_does_not_arrive_is_an_error) {
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  const int status = run([&](Inheritance& mine) {
    KeeperLine line(std::move(mine.keeper), {});
    const Fd memory = memory_with(1);
    int kept = 0;
    const rlimit few{32, old.rlim_max};
    if (prlimit(getppid(), RLIMIT_NOFILE, &few, nullptr) != 0) return 99;
    while (kept < 64 && line.keep(Keep::slot_page, static_cast<uint64_t>(kept), memory.get())) kept++;
    mine.state->next_device_index = static_cast<uint32_t>(errno);
    mine.state->generation = static_cast<uint32_t>(kept);
    return 0;
  });
  setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(status, 0);
  EXPECT_LT(state->generation, 32u);
  EXPECT_EQ(state->next_device_index, static_cast<uint32_t>(EMFILE));
}

TEST_F(Keeper, a_signal_to_end_reaches_the_worker) {
  EXPECT_EQ(run([](Inheritance& mine) {
              KeeperLine line(std::move(mine.keeper), {});
              line.tell_ready();
              sigset_t end;
              sigemptyset(&end);
              sigaddset(&end, SIGTERM);
              kill(getppid(), SIGTERM);
              int number = 0;
              sigwait(&end, &number);
              mine.state->generation = static_cast<uint32_t>(number);
              return 1;
            }),
            0);
  EXPECT_EQ(state->generation, static_cast<uint32_t>(SIGTERM));
}

}  // namespace
}  // namespace uroce::daemon
