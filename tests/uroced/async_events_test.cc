// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/async_events.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/uroced/registry.h"

namespace uroce::daemon {
namespace {

// Runs `check` where AsyncEvents live: in a worker, with a keeper behind it. 0: as expected.
int in_worker(const std::function<int(KeeperLine&)>& check) {
  Inheritance inheritance;
  std::string why;
  State* state = inheritance.state = create_state(inheritance.state_memory, why);
  EXPECT_NE(state, nullptr) << why;
  int result = -1;
  run_keeper(
      std::move(inheritance),
      [&](Inheritance& mine) {
        KeeperLine line(std::move(mine.keeper), std::move(mine.kept));
        line.tell_ready();
        mine.state->next_device_index = static_cast<uint32_t>(check(line));
        return 0;
      },
      [](int, const std::string&) {});
  result = static_cast<int>(state->next_device_index);
  munmap(state, sizeof *state);
  return result;
}

// Reads one record; its element, or ~0 when there is none now.
uint64_t element(int fd) {
  ib_uverbs_async_event_desc record{};
  return recv(fd, &record, sizeof record, MSG_DONTWAIT) == sizeof record ? record.element : ~uint64_t{0};
}

TEST(AsyncEventsTest, more_than_a_socket_takes_wait_and_arrive_in_order) {
  EXPECT_EQ(in_worker([](KeeperLine& line) {
              Loop loop;
              AsyncEvents events(loop, line);
              AsyncEvents::Pair pair;
              if (!events.make_pair(1, pair)) return 1;
              constexpr uint64_t kEvents = 3000;
              for (uint64_t i = 0; i < kEvents; ++i) events.raise(1, 9, i);
              uint64_t next = 0;
              FdWatch reader(loop, pair.program_end.get(), [&] {
                while (element(pair.program_end.get()) == next) next++;
                if (next == kEvents) loop.stop();
              });
              Timer guard(loop, [&] { loop.stop(); });
              guard.start(std::chrono::seconds(20));
              loop.run();
              return next == kEvents ? 0 : 2;
            }),
            0);
}

TEST(AsyncEventsTest, nobody_reads_and_somebody_has_closed) {
  EXPECT_EQ(in_worker([](KeeperLine& line) {
              Loop loop;
              AsyncEvents events(loop, line);
              AsyncEvents::Pair deaf, gone;
              if (!events.make_pair(1, deaf) || !events.make_pair(2, gone)) return 1;
              gone.program_end.reset();
              for (uint64_t i = 0; i < 20'000; ++i) {
                events.raise(1, 9, i);
                events.raise(2, 9, i);
                events.raise(3, 9, i);  // has none
              }
              return element(deaf.program_end.get()) == 0 ? 0 : 2;
            }),
            0);
}

TEST(AsyncEventsTest, a_second_pair_takes_the_place_of_the_first) {
  EXPECT_EQ(
      in_worker([](KeeperLine& line) {
        Loop loop;
        AsyncEvents events(loop, line);
        AsyncEvents::Pair first, second;
        if (!events.make_pair(1, first) || !events.make_pair(1, second)) return 1;
        events.raise(1, 9, 5);
        return element(first.program_end.get()) == ~uint64_t{0} && element(second.program_end.get()) == 5 ? 0
                                                                                                          : 2;
      }),
      0);
}

}  // namespace
}  // namespace uroce::daemon
