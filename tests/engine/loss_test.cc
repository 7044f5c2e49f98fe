// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Lost, late and repeated packets on RC, and the two clocks: retransmission, which spends nothing, and the IB
// timeout, which ends the queue pair.
#include <gtest/gtest.h>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

constexpr int64_t kMs = 1'000'000;

struct Writer {
  explicit Writer(const QpOptions& options = {})
      : pair(world.connect(options)), local(world.a.region(1 << 20)), remote(world.b.region(1 << 20)) {
    world.a.memory.fill(local.va, local.length, 5);
  }
  void write(uint64_t id, uint32_t bytes) {
    const SgEntry sge = local.sge(0, bytes);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, id, {&sge, 1}, remote.va, remote.key)), 0);
  }
  World world;
  Pair pair;
  Region local;
  Region remote;
};

TEST(Loss, a_hole_is_repaired_by_one_nak_without_a_timer) {
  Writer w;
  int data = 0;
  w.world.wire = [&data](Frame& frame) { return frame.from != 1 || data++ != 3; };
  w.write(1, 10'240);
  const Time before = w.world.now();
  w.world.exchange();
  const auto done = w.world.a.poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(w.world.now(), before);
  EXPECT_TRUE(w.world.b.memory.holds(w.remote.va, 10'240, 5));
  EXPECT_EQ(w.world.a.engine.counters().rcvd_seq_err, 1u);
  EXPECT_EQ(w.world.a.engine.counters().timeouts, 0u);
}

TEST(Loss, every_single_packet_of_a_message_may_be_lost) {
  for (int which = 0; which < 12; ++which) {
    SCOPED_TRACE(which);
    Writer w;
    int data = 0;
    w.world.wire = [&data, which](Frame& frame) { return frame.from != 1 || data++ != which; };
    w.write(1, 10'240);
    EXPECT_EQ(w.world.completions(w.world.a, 1)[0].status, WcStatus::success);
    EXPECT_TRUE(w.world.b.memory.holds(w.remote.va, 10'240, 5));
  }
}

TEST(Loss, the_last_packet_and_its_acknowledgement_cost_a_round_trip_timer_not_an_ib_timeout) {
  for (const uint32_t loser : {1u, 2u}) {
    QpOptions options;
    options.timeout = 20;  // 4.3 s
    options.retry_cnt = 0;
    Writer w(options);
    int seen = 0;
    w.world.wire = [&seen, loser](Frame& frame) { return frame.from != loser || seen++ != 0; };
    w.write(1, 100);
    const Time before = w.world.now();
    EXPECT_EQ(w.world.completions(w.world.a, 1)[0].status, WcStatus::success);
    EXPECT_LT(w.world.now() - before, 50 * kMs);
  }
}

TEST(Loss, duplicates_are_executed_once_and_answered) {
  World world;
  const Pair pair = world.connect();
  std::vector<Frame> kept;
  world.wire = [&kept](Frame& frame) {
    if (frame.from == 1) kept.push_back(frame);
    return true;
  };
  const Region word = world.b.region(8);
  const Region result = world.a.region(8);
  const SgEntry sge = result.sge();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(world.b.receive(pair.b, i), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  SendRequest add = request(WrOpcode::fetch_add, 2, {&sge, 1}, word.va, word.key);
  add.swap_or_add = 1;
  ASSERT_EQ(world.a.post(pair.a, add), 0);
  EXPECT_EQ(world.completions(world.a, 2)[1].status, WcStatus::success);
  EXPECT_EQ(world.b.poll().size(), 1u);
  world.tracing = true;
  const std::vector<Frame> again = kept;
  for (const Frame& frame : again) world.deliver(world.b, frame);
  world.exchange();
  EXPECT_TRUE(world.b.poll().empty());
  EXPECT_EQ(world.b.memory.word(word.va), 1u);
  EXPECT_EQ(world.trace.size(), 2u);  // an acknowledgement and the old atomic result
  EXPECT_EQ(world.b.drops(engine::PacketDrop::duplicate), 2u);
  EXPECT_EQ(world.b.engine.counters().duplicate_request, 2u);
  EXPECT_TRUE(world.a.poll().empty());
}

TEST(Loss, retry_exceeded_comes_after_the_configured_time_and_not_before) {
  struct Case {
    uint8_t timeout;
    uint8_t retry_cnt;
    int64_t configured_ns;  // with the floor of 100 ms
  };
  for (const Case& c : {Case{8, 7, 8 * 100 * kMs}, Case{8, 0, 100 * kMs}, Case{17, 3, 4 * (4096ll << 17)},
                        Case{20, 1, 2 * (4096ll << 20)}}) {
    SCOPED_TRACE(static_cast<int>(c.timeout));
    QpOptions options;
    options.timeout = c.timeout;
    options.retry_cnt = c.retry_cnt;
    Writer w(options);
    w.world.wire = [](Frame&) { return false; };
    w.write(1, 100);
    w.write(2, 100);
    const Time before = w.world.now();
    const auto done = w.world.completions(w.world.a, 2, 120'000 * kMs);
    const int64_t took = w.world.now() - before;
    EXPECT_EQ(done[0].status, WcStatus::retry_exceeded);
    EXPECT_EQ(done[0].wr_id, 1u);
    EXPECT_EQ(done[1].status, WcStatus::flush_error);
    EXPECT_GE(took, c.configured_ns);
    EXPECT_LE(took, std::max(2 * c.configured_ns, c.configured_ns + 2'000 * kMs));
    EXPECT_EQ(w.pair.a->state(), QpState::error);
    EXPECT_EQ(w.world.a.engine.counters().retry_exceeded_err, 1u);
  }
}

TEST(Loss, a_peer_that_sleeps_for_tens_of_milliseconds_costs_no_retry) {
  QpOptions options;
  options.timeout = 8;
  options.retry_cnt = 0;
  Writer w(options);
  std::vector<Frame> unread;  // in the sleeping program's socket
  w.world.wire = [&unread](Frame& frame) {
    if (frame.from == 1) unread.push_back(frame);
    return frame.from != 1;
  };
  w.write(1, 5'000);
  w.world.advance(90 * kMs);
  EXPECT_TRUE(w.world.a.poll().empty());
  EXPECT_LE(unread.size(), 12u);  // the message, and now and then one packet that asks
  w.world.wire = [](Frame&) { return true; };
  for (const Frame& frame : unread) w.world.deliver(w.world.b, frame);
  w.world.exchange();
  EXPECT_EQ(w.world.a.poll().at(0).status, WcStatus::success);
  EXPECT_TRUE(w.world.b.memory.holds(w.remote.va, 5'000, 5));
}

// Its first acknowledgement covers a part only; the rest is not lost, it has not been read yet.
TEST(Loss, a_slow_peer_is_not_sent_everything_again) {
  QpOptions options;
  options.capabilities.max_send_wr = 512;
  Writer w(options);
  w.write(0, 200'000);
  w.world.completions(w.world.a, 1);
  for (uint64_t i = 1; i <= 300; ++i) w.write(i, 4096);
  const auto burst = w.world.outgoing(w.world.a);
  ASSERT_GT(burst.size(), 60u);
  const uint64_t before = w.world.a.engine.counters().retransmitted_pkts;
  // B sleeps until the timer has fired, then reads in two portions.
  const Time fires = *w.world.a.engine.next_deadline();
  w.world.a.engine.on_deadline(fires);
  const auto probe = w.world.outgoing(w.world.a);
  EXPECT_EQ(probe.size(), 1u);
  for (size_t i = 0; i < burst.size() / 2; ++i) w.world.deliver(w.world.b, burst[i]);
  for (const Frame& frame : w.world.outgoing(w.world.b)) w.world.deliver(w.world.a, frame);
  const auto meanwhile = w.world.outgoing(w.world.a);
  for (size_t i = burst.size() / 2; i < burst.size(); ++i) w.world.deliver(w.world.b, burst[i]);
  for (const Frame& frame : probe) w.world.deliver(w.world.b, frame);
  for (const Frame& frame : meanwhile) w.world.deliver(w.world.b, frame);
  EXPECT_EQ(w.world.completions(w.world.a, 300).back().status, WcStatus::success);
  EXPECT_EQ(w.world.a.engine.counters().retransmitted_pkts - before, 1u);
}

TEST(Loss, a_silent_peer_is_asked_several_times_before_it_is_given_up) {
  QpOptions options;
  options.timeout = 8;
  options.retry_cnt = 0;
  Writer w(options);
  int64_t last = 0;
  w.world.wire = [&](Frame& frame) {
    if (frame.from == 1) last = w.world.now().ns;
    return false;
  };
  const int64_t begin = w.world.now().ns;
  w.write(1, 100);
  EXPECT_EQ(w.world.completions(w.world.a, 1)[0].status, WcStatus::retry_exceeded);
  EXPECT_GE(w.world.a.engine.counters().timeouts, 4u);
  EXPECT_GE(last - begin, 75 * kMs);
}

TEST(Loss, a_program_that_was_stopped_itself_does_not_give_its_peer_up) {
  QpOptions options;
  options.timeout = 8;
  options.retry_cnt = 0;
  Writer w(options);
  w.world.wire = [](Frame&) { return false; };
  w.write(1, 100);
  w.world.exchange();
  // The debugger held us for ten seconds: no timer was looked at.
  const Time late = w.world.now() + 10'000 * kMs;
  w.world.a.engine.on_deadline(late);
  EXPECT_TRUE(w.world.a.poll().empty());
  EXPECT_EQ(w.pair.a->state(), QpState::rts);
}

TEST(Loss, timeout_zero_never_fires_and_an_error_flushes_at_once) {
  QpOptions options;
  options.timeout = 0;
  Writer w(options);
  int seen = 0;
  w.world.wire = [&seen](Frame&) { return seen++ != 0; };
  w.write(1, 100);
  w.world.advance(100'000 * kMs);
  EXPECT_TRUE(w.world.a.poll().empty());
  w.write(2, 100);  // shows the peer the hole
  w.world.exchange();
  EXPECT_EQ(w.world.a.poll().size(), 2u);
  w.world.wire = [](Frame&) { return false; };
  w.write(3, 100);
  w.world.exchange();
  ASSERT_EQ(w.world.a.modify(w.pair.a, QpState::error), 0);
  EXPECT_EQ(w.world.a.poll().at(0).status, WcStatus::flush_error);
}

TEST(Loss, psn_wraps_around_in_the_middle_of_a_message_with_losses) {
  World world;
  QpOptions options;
  options.mtu = PathMtu::mtu_256;
  const Pair pair = world.connect(options, options, Psn(0xfffff8), Psn(0xfffffe));
  const Region local = world.a.region(65536);
  const Region remote = world.b.region(65536);
  world.a.memory.fill(local.va, 65536, 8);
  int n = 0;
  world.wire = [&n](Frame&) { return ++n % 7 != 0; };
  const SgEntry sge = local.sge();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, remote.va, remote.key)), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  EXPECT_TRUE(world.b.memory.holds(remote.va, 65536, 8));
  const Region back = world.a.region(65536);
  const SgEntry to = back.sge();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, 2, {&to, 1}, remote.va, remote.key)), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  EXPECT_TRUE(world.a.memory.holds(back.va, 65536, 8));
}

TEST(Loss, acknowledgements_are_few_in_a_stream) {
  QpOptions options;
  options.signal_all = false;
  options.capabilities.max_send_wr = 256;
  Writer w(options);
  w.write(0, 4'000);  // the peer was heard
  w.world.exchange();
  w.world.tracing = true;
  const SgEntry sge = w.local.sge(0, 1024);
  for (uint64_t i = 0; i < 200; ++i) {
    SendRequest r = request(WrOpcode::write, i, {&sge, 1}, w.remote.va, w.remote.key);
    r.flags.signaled = i == 199;
    ASSERT_EQ(w.world.a.post(w.pair.a, r), 0);
  }
  w.world.exchange();
  size_t acknowledgements = 0;
  for (const Frame& frame : w.world.trace) acknowledgements += frame.from == 2;
  EXPECT_EQ(w.world.a.poll().size(), 2u);
  EXPECT_LE(acknowledgements, 20u);
  EXPECT_GE(acknowledgements, 1u);
}

TEST(Loss, an_acknowledgement_beyond_what_was_sent_is_a_ghost) {
  QpOptions options;
  options.timeout = 8;
  options.retry_cnt = 0;
  Writer w(options);
  w.world.wire = [](Frame&) { return false; };
  w.write(1, 100);
  w.world.exchange();
  wire::Packet ghost;
  ghost.bth.opcode = Opcode::rc_acknowledge;
  ghost.bth.dest_qpn = w.pair.a->qpn();
  ghost.bth.psn = Psn(0xfffffa) + 1;
  w.world.inject(w.world.a, ghost);
  EXPECT_TRUE(w.world.a.poll().empty());
  EXPECT_EQ(w.world.a.drops(engine::PacketDrop::ghost_acknowledge), 1u);
  EXPECT_EQ(w.world.completions(w.world.a, 1)[0].status, WcStatus::retry_exceeded);
}

TEST(Loss, requester_gives_the_window_back_to_others_when_it_fails) {
  QpOptions dead;
  dead.timeout = 8;
  dead.retry_cnt = 0;
  Writer w(dead);
  QpOptions other;
  const Pair second = w.world.connect(other);
  const Qpn dead_qpn = w.pair.b->qpn();
  w.world.wire = [dead_qpn](Frame& frame) { return frame.dest_qpn != dead_qpn; };
  w.write(1, 1 << 20);
  const SgEntry sge = w.local.sge(0, 1 << 20);
  ASSERT_EQ(w.world.a.post(second.a, request(WrOpcode::write, 2, {&sge, 1}, w.remote.va, w.remote.key)), 0);
  const auto done = w.world.completions(w.world.a, 2);
  size_t good = 0;
  for (const Completion& c : done) good += c.status == WcStatus::success && c.wr_id == 2;
  EXPECT_EQ(good, 1u);
}

}  // namespace
}  // namespace uroce::test
