// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Usage: cm_sim_tests [gtest options], or cm_sim_tests --seed N [connects] to replay one failure.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/cm_simulation.h"

namespace uroce::sim {
namespace {

#ifdef UROCE_SIM_SHORT
constexpr uint64_t kSeedsPerGroup = 3, kConnects = 600;
#else
constexpr uint64_t kSeedsPerGroup = 40, kConnects = 2600;
#endif

class CmSimulationTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(CmSimulationTest, every_connection_ends_and_nothing_is_left) {
  CmTally sum;
  for (uint64_t i = 0; i < kSeedsPerGroup; ++i) {
    const CmScenario scenario = cm_scenario(GetParam() * 1000 + i, kConnects);
    const CmOutcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.wrong, "") << describe(scenario) << "\nagain with: cm_sim_tests --seed "
                                 << scenario.seed << " " << kConnects;
    sum.connects += outcome.tally.connects;
    sum.established += outcome.tally.established;
    sum.rejected += outcome.tally.rejected;
    sum.disconnected += outcome.tally.disconnected;
  }
  // All of it must happen, or it proves nothing.
  EXPECT_EQ(sum.connects, kSeedsPerGroup * kConnects);
  EXPECT_GT(sum.established, sum.connects / 2);
  EXPECT_GT(sum.rejected, sum.connects / 20);
  EXPECT_GT(sum.disconnected, sum.connects / 4);
}

INSTANTIATE_TEST_SUITE_P(Group, CmSimulationTest, ::testing::Range<uint64_t>(1, 5));

TEST(CmSimulation, without_faults_everybody_answers) {
  CmScenario scenario;
  scenario.connects = 2000;
  scenario.patient = true;
  const CmOutcome outcome = simulate(scenario);
  EXPECT_EQ(outcome.wrong, "");
  EXPECT_EQ(outcome.tally.unreachable, 0u);
  EXPECT_EQ(outcome.tally.timed_out, 0u);
}

TEST(CmSimulation, with_nothing_arriving_everything_ends) {
  CmScenario scenario;
  scenario.connects = 500;
  scenario.loss = 1;
  const CmOutcome outcome = simulate(scenario);
  EXPECT_EQ(outcome.wrong, "");
  EXPECT_EQ(outcome.tally.established, 0u);
  EXPECT_GT(outcome.tally.unreachable, 400u);
}

TEST(CmSimulation, same_seed_gives_the_same_bytes) {
  for (const uint64_t seed : {3u, 44u}) {
    const CmOutcome first = simulate(cm_scenario(seed, 500));
    const CmOutcome second = simulate(cm_scenario(seed, 500));
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
    EXPECT_EQ(first.mads, second.mads);
  }
  EXPECT_NE(simulate(cm_scenario(3, 500)).hash, simulate(cm_scenario(4, 500)).hash);
}

}  // namespace

static int replay(uint64_t seed, uint64_t connects) {
  const CmScenario scenario = cm_scenario(seed, connects);
  const CmOutcome o = simulate(scenario);
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%s\n%llu MADs (%llu repeated), %llu established, %llu rejected, %llu unreachable, %llu disconnected "
      "(%llu "
      "unanswered), %llu of %llu resolutions answered, %llu stale, %.1f virtual seconds, hash %016llx\n%s\n",
      describe(scenario).c_str(), number(o.mads), number(o.retransmitted), number(o.tally.established),
      number(o.tally.rejected), number(o.tally.unreachable), number(o.tally.disconnected),
      number(o.tally.timed_out), number(o.tally.answers), number(o.tally.resolutions), number(o.stale),
      static_cast<double>(o.virtual_ns) * 1e-9, number(o.hash),
      o.wrong.empty() ? "all right" : o.wrong.c_str());
  return o.wrong.empty() ? 0 : 1;
}

}  // namespace uroce::sim

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc >= 3 && std::strcmp(argv[1], "--seed") == 0)
    return uroce::sim::replay(std::strtoull(argv[2], nullptr, 0),
                              argc > 3 ? std::strtoull(argv[3], nullptr, 0) : 2600);
  return RUN_ALL_TESTS();
}
