// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A million operations under faults. `sim_tests --seed N` (or `--storm N`) runs one seed again and says what
// happened.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/simulation.h"
#include "tests/sim/storm.h"

namespace uroce::sim {
namespace {

#ifdef UROCE_SIM_SHORT
constexpr uint64_t kSeedsPerGroup = 2;
constexpr uint64_t kCompared = 300;  // operations of a run that is made twice
#else
constexpr uint64_t kSeedsPerGroup = 16;
constexpr uint64_t kCompared = 2000;
#endif
constexpr uint64_t kGroups = 8;
constexpr uint64_t kOperations = 8000;
constexpr uint64_t kStormSteps = 20000;

class Traffic : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Traffic, every_request_is_done_once_in_order_with_its_bytes) {
  uint64_t operations = 0;
  for (uint64_t i = 0; i < kSeedsPerGroup; ++i) {
    const Scenario scenario = moderate_scenario(GetParam() * 1000 + i, kOperations);
    const Outcome outcome = simulate(scenario);
    operations += outcome.operations;
    ASSERT_EQ(outcome.wrong, "") << describe(scenario) << "\nagain with: sim_tests --seed " << scenario.seed;
  }
  EXPECT_GE(operations, kSeedsPerGroup * kOperations * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Group, Traffic, ::testing::Range<uint64_t>(1, kGroups + 1));

class StormTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(StormTest, hostile_packets_and_broken_queue_pairs_lose_no_completion) {
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  for (uint64_t i = 0; i < kSeedsPerGroup; ++i) {
    const uint64_t seed = GetParam() * 1000 + i;
    const StormOutcome outcome = storm(seed, kStormSteps);
    ASSERT_EQ(outcome.wrong, "") << "again with: sim_tests --storm " << seed;
    succeeded += outcome.succeeded;
    failed += outcome.failed;
  }
  // Both must happen, or the storm is none.
  EXPECT_GT(succeeded, kSeedsPerGroup * kStormSteps / 10);
  EXPECT_GT(failed, kSeedsPerGroup * kStormSteps / 100);
}

INSTANTIATE_TEST_SUITE_P(Group, StormTest, ::testing::Range<uint64_t>(1, 5));

TEST(Determinism, same_seed_gives_the_same_storm) {
  EXPECT_EQ(storm(9, 2000).hash, storm(9, 2000).hash);
  EXPECT_NE(storm(9, 2000).hash, storm(10, 2000).hash);
}

TEST(Determinism, same_seed_gives_the_same_packets_and_completions) {
  for (const uint64_t seed : {3u, 1004u, 77u}) {
    const Scenario scenario = moderate_scenario(seed, kCompared);
    const Outcome first = simulate(scenario);
    const Outcome second = simulate(scenario);
    EXPECT_EQ(first.wrong, "");
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
    EXPECT_EQ(first.packets, second.packets);
  }
  EXPECT_NE(simulate(moderate_scenario(3, kCompared)).hash, simulate(moderate_scenario(4, kCompared)).hash);
}

}  // namespace

static int replay(uint64_t seed, uint64_t operations) {
  const Scenario scenario = moderate_scenario(seed, operations);
  std::printf("%s\n", describe(scenario).c_str());
  const Outcome outcome = simulate(scenario);
  std::printf(
      "operations %llu, packets %llu, lost %llu, retransmitted %llu, %.3f virtual seconds, hash "
      "%016llx\n%s\n",
      static_cast<unsigned long long>(outcome.operations), static_cast<unsigned long long>(outcome.packets),
      static_cast<unsigned long long>(outcome.lost), static_cast<unsigned long long>(outcome.retransmitted),
      static_cast<double>(outcome.virtual_ns) * 1e-9, static_cast<unsigned long long>(outcome.hash),
      outcome.wrong.empty() ? "all right" : outcome.wrong.c_str());
  return outcome.wrong.empty() ? 0 : 1;
}

static int replay_storm(uint64_t seed, uint64_t steps) {
  const StormOutcome outcome = storm(seed, steps);
  std::printf(
      "posted %llu, succeeded %llu, failed %llu, packets %llu, resets %llu\n%s\n",
      static_cast<unsigned long long>(outcome.posted), static_cast<unsigned long long>(outcome.succeeded),
      static_cast<unsigned long long>(outcome.failed), static_cast<unsigned long long>(outcome.packets),
      static_cast<unsigned long long>(outcome.resets),
      outcome.wrong.empty() ? "all right" : outcome.wrong.c_str());
  return outcome.wrong.empty() ? 0 : 1;
}

}  // namespace uroce::sim

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc >= 3 && std::strcmp(argv[1], "--seed") == 0)
    return uroce::sim::replay(std::strtoull(argv[2], nullptr, 0),
                              argc > 3 ? std::strtoull(argv[3], nullptr, 0) : 8000);
  if (argc >= 3 && std::strcmp(argv[1], "--storm") == 0)
    return uroce::sim::replay_storm(std::strtoull(argv[2], nullptr, 0),
                                    argc > 3 ? std::strtoull(argv[3], nullptr, 0) : 20000);
  return RUN_ALL_TESTS();
}
