// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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
  EXPECT_EQ(table.all().size(), 1u);
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

// The first worker hands over a descriptor and dies; the second finds it and leaves.
TEST(Keeper, a_new_worker_inherits_what_the_dead_one_gave) {
  Inheritance inheritance;
  std::string why;
  inheritance.state = create_state(inheritance.state_memory, why);
  ASSERT_NE(inheritance.state, nullptr) << why;
  State* state = inheritance.state;
  const int status = run_keeper(std::move(inheritance), [](Inheritance& mine) {
    mine.state->generation++;
    KeeperLine line(std::move(mine.keeper), std::move(mine.kept));
    if (mine.state->generation == 1) {
      const Fd memory = memory_with(42);
      line.keep(Keep::slot_page, 5, memory.get());
      line.keep(Keep::slot_page, 6, memory.get());
      line.drop(Keep::slot_page, 6);
      raise(SIGKILL);
    }
    const Fd inherited = line.take_inherited(Keep::slot_page, 5);
    mine.state->named = value_in(inherited.get());
    mine.state->named += line.inherited(Keep::slot_page, 6) == nullptr ? 1 : 0;
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(state->generation, 2u);
  EXPECT_EQ(state->named, 43u);
  munmap(state, sizeof *state);
}

}  // namespace
}  // namespace uroce::daemon
