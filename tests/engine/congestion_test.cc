// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The window of a destination: how it grows, what cuts it, and that marked packets are told to their sender.
#include "provider/engine/congestion.h"

#include <gtest/gtest.h>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

using engine::Destination;
using engine::EngineConfig;
using engine::kMinCharge;

constexpr uint32_t kCharge = kMinCharge;
constexpr Time kStart{1'000'000'000};

TEST(Congestion, an_unheard_peer_gets_one_burst) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  EXPECT_EQ(d.window(), config.burst_bytes);
  d.on_acknowledged(kStart, kCharge, kCharge);
  EXPECT_GE(d.window(), config.start_window_bytes);
}

TEST(Congestion, grows_to_the_limit_and_no_further) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  for (int i = 0; i < 10'000; ++i) d.on_acknowledged(kStart, kCharge, kCharge);
  EXPECT_EQ(d.window(), config.max_window_bytes);
}

TEST(Congestion, a_loss_halves_once_a_round_trip_and_growth_is_slow_afterwards) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  for (int i = 0; i < 10'000; ++i) d.on_acknowledged(kStart, kCharge, kCharge);
  d.on_round_trip(100'000);
  const uint32_t full = d.window();
  Time now{5'000'000'000};
  d.on_loss(now, kCharge);
  d.on_loss(now + 50'000, kCharge);
  EXPECT_EQ(d.window(), full / 2);
  d.on_loss(now + 200'000, kCharge);
  EXPECT_EQ(d.window(), full / 4);
  const uint32_t before = d.window();
  for (uint32_t acknowledged = 0; acknowledged < before; acknowledged += kCharge)
    d.on_acknowledged(kStart, kCharge, kCharge);
  EXPECT_EQ(d.window(), before + kCharge);
}

TEST(Congestion, a_timeout_begins_again_and_is_undone_when_nothing_was_lost) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  for (int i = 0; i < 10'000; ++i) d.on_acknowledged(kStart, kCharge, kCharge);
  const uint32_t full = d.window();
  d.on_timeout(Time{5'000'000'000}, kCharge, false);
  EXPECT_EQ(d.window(), full / 2);
  d.on_timeout(Time{5'100'000'000}, kCharge, true);
  EXPECT_EQ(d.window(), 2 * kCharge);
  d.on_timeout_answered(false);
  EXPECT_EQ(d.window(), full);
  d.on_timeout_answered(false);
  EXPECT_EQ(d.window(), full);
  d.on_timeout(Time{6'000'000'000}, kCharge, true);
  d.on_loss(Time{7'000'000'000}, kCharge);
  d.on_timeout_answered(false);  // too late: a loss was seen meanwhile
  EXPECT_EQ(d.window(), 2 * kCharge);
}

TEST(Congestion, a_timeout_that_was_a_loss_is_not_undone_by_a_later_one) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  for (int i = 0; i < 10'000; ++i) d.on_acknowledged(kStart, kCharge, kCharge);
  const uint32_t full = d.window();
  d.on_timeout(Time{5'000'000'000}, kCharge, false);
  d.on_timeout_answered(true);
  d.on_timeout(Time{6'000'000'000}, kCharge, false);
  d.on_timeout_answered(false);
  EXPECT_EQ(d.window(), full / 2);
}

TEST(Congestion, a_peer_left_alone_gets_no_more_than_a_new_one_but_quickly_back_to_what_it_had) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  for (int i = 0; i < 10'000; ++i) d.on_acknowledged(kStart, kCharge, kCharge);
  d.on_round_trip(100'000);
  const uint32_t full = d.window();
  d.on_begin(kStart + 500'000);
  EXPECT_EQ(d.window(), full);
  d.on_begin(kStart + 50'000'000);
  EXPECT_EQ(d.window(), config.start_window_bytes);
  for (uint32_t sent = 0; sent < full; sent += kCharge) d.on_acknowledged(kStart, kCharge, kCharge);
  EXPECT_EQ(d.window(), full);
}

TEST(Congestion, a_notification_takes_a_quarter) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  for (int i = 0; i < 10'000; ++i) d.on_acknowledged(kStart, kCharge, kCharge);
  const uint32_t full = d.window();
  d.on_congestion_notification(Time{5'000'000'000}, kCharge);
  EXPECT_EQ(d.window(), full / 4 * 3);
}

TEST(Congestion, the_timer_follows_the_round_trip_within_its_limits) {
  const EngineConfig config;
  Destination d(config, PathId{1}, 3);
  EXPECT_EQ(d.retransmission_timeout_ns(), 10'000'000);
  for (int i = 0; i < 100; ++i) d.on_round_trip(20'000);
  EXPECT_EQ(d.retransmission_timeout_ns(), 1'000'000);
  for (int i = 0; i < 100; ++i) d.on_round_trip(30'000'000);
  EXPECT_GE(d.retransmission_timeout_ns(), 30'000'000);
  for (int i = 0; i < 100; ++i) d.on_round_trip(900'000'000);
  EXPECT_LE(d.retransmission_timeout_ns(), 200'000'000);
}

TEST(Congestion, no_more_than_the_window_is_under_way_to_one_slot_whatever_the_queue_pairs) {
  World world;
  const Region local = world.a.region(1 << 20);
  const Region remote = world.b.region(1 << 20);
  const SgEntry sge = local.sge();
  for (int i = 0; i < 8; ++i) {
    const Pair pair = world.connect();
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, remote.va, remote.key)), 0);
  }
  const auto burst = world.outgoing(world.a);
  // The first burst, and one packet for each queue pair that had none.
  EXPECT_LE(burst.size(), 2 * (32u << 10) / kCharge + 8);
  EXPECT_GE(burst.size(), (32u << 10) / kCharge);
  for (const Frame& frame : burst) world.deliver(world.b, frame);
  EXPECT_EQ(world.completions(world.a, 8).size(), 8u);
}

TEST(Congestion, marked_packets_are_told_to_the_sender_who_slows_down) {
  World world;
  const Pair pair = world.connect();
  const Region local = world.a.region(1 << 20);
  const Region remote = world.b.region(1 << 20);
  const SgEntry sge = local.sge();
  world.wire = [](Frame& frame) {
    if (frame.from == 1) frame.traffic_class |= 3;
    return true;
  };
  world.tracing = true;
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, remote.va, remote.key)), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  size_t notifications = 0;
  for (const Frame& frame : world.trace) {
    const wire::Packet packet = frame.parse();
    if (packet.bth.opcode != Opcode::cnp) continue;
    ++notifications;
    EXPECT_EQ(frame.bytes.size(), 28u);
    EXPECT_TRUE(packet.bth.becn);
    EXPECT_EQ(frame.from, 2u);
  }
  EXPECT_EQ(notifications, 1u);  // one in 50 us, and time stood still
  EXPECT_EQ(world.a.engine.counters().cnp_received, 1u);
  EXPECT_EQ(world.b.engine.counters().cnp_sent, 1u);
  EXPECT_TRUE(world.b.memory.is_zero(remote.va, 1 << 20) == world.a.memory.is_zero(local.va, 1 << 20));
}

TEST(Congestion, one_silent_peer_does_not_stop_another) {
  World world;
  QpOptions options;
  const Pair dead = world.connect(options);
  const Pair live = world.connect(options);
  const Region local = world.a.region(1 << 18);
  const Region remote = world.b.region(1 << 18);
  const SgEntry sge = local.sge();
  const Qpn silent = dead.b->qpn();
  world.wire = [silent](Frame& frame) { return frame.dest_qpn != silent; };
  ASSERT_EQ(world.a.post(dead.a, request(WrOpcode::write, 1, {&sge, 1}, remote.va, remote.key)), 0);
  world.exchange();
  ASSERT_EQ(world.a.post(live.a, request(WrOpcode::write, 2, {&sge, 1}, remote.va, remote.key)), 0);
  world.exchange();
  const auto done = world.a.poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 2u);
}

}  // namespace
}  // namespace uroce::test
