// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ERR, RESET, SQD and SQE: what is flushed, what is forgotten, what waits.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

constexpr uint32_t kSqDrained = 5;

size_t count(const std::vector<Event>& events, Event::Kind kind, uint32_t number) {
  size_t n = 0;
  for (const Event& e : events) n += e.kind == kind && e.async == number;
  return n;
}

TEST(States, error_flushes_everything_in_order_and_what_is_posted_later_too) {
  World world;
  QpOptions options;
  options.signal_all = false;
  const Pair pair = world.connect(options);
  world.wire = [](Frame&) { return false; };
  const Region to = world.b.region(64);
  for (uint64_t i = 0; i < 10; ++i) {
    SendRequest r = request(WrOpcode::write, i, {}, to.va, to.key);
    r.flags.signaled = i % 2 == 0;
    ASSERT_EQ(world.a.post(pair.a, r), 0);
    ASSERT_EQ(world.a.receive(pair.a, 100 + i), 0);
  }
  world.exchange();
  ASSERT_EQ(world.a.modify(pair.a, QpState::error), 0);
  SendRequest marker = request(WrOpcode::send, 10);
  marker.flags.signaled = false;
  ASSERT_EQ(world.a.post(pair.a, marker), 0);
  ASSERT_EQ(world.a.receive(pair.a, 110), 0);
  world.exchange();
  uint64_t sends = 0;
  uint64_t receives = 100;
  for (const Completion& c : world.a.poll()) {
    EXPECT_EQ(c.status, WcStatus::flush_error);
    EXPECT_EQ(c.qp_num, pair.a->qpn().value());
    EXPECT_NE(c.vendor_error, 0u);
    if (c.wr_id < 100) {
      EXPECT_EQ(c.wr_id, sends++);
    } else {
      EXPECT_EQ(c.wr_id, receives++);
    }
  }
  EXPECT_EQ(sends, 11u);
  EXPECT_EQ(receives, 111u);
  EXPECT_TRUE(world.a.events().empty());  // a modify to ERR raises nothing
}

TEST(States, a_receive_half_filled_is_flushed_too) {
  World world;
  QpOptions options;
  options.mtu = PathMtu::mtu_256;
  const Pair pair = world.connect(options);
  const Region from = world.a.region(4096);
  const Region to = world.b.region(4096);
  ASSERT_EQ(world.b.receive(pair.b, 7, {to.sge()}), 0);
  const SgEntry sge = from.sge();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1, {&sge, 1})), 0);
  const auto frames = world.outgoing(world.a);
  for (size_t i = 0; i < 3; ++i) world.deliver(world.b, frames[i]);
  ASSERT_EQ(world.b.modify(pair.b, QpState::error), 0);
  const auto flushed = world.b.poll();
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].wr_id, 7u);
  EXPECT_EQ(flushed[0].status, WcStatus::flush_error);
  for (size_t i = 3; i < frames.size(); ++i) world.deliver(world.b, frames[i]);
  EXPECT_TRUE(world.b.memory.is_zero(to.va + 3 * 256, 1024));
  EXPECT_GT(world.b.drops(engine::PacketDrop::wrong_state), 0u);
}

TEST(States, reset_forgets_and_the_queue_pair_lives_again) {
  World world;
  const QpOptions options;
  const Pair pair = world.connect(options);
  const Pair other = world.connect(options);
  const Region to = world.b.region(4096);
  const Region from = world.a.region(4096);
  world.a.memory.fill(from.va, 4096, 6);
  const SgEntry sge = from.sge();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, to.va, to.key)), 0);
  ASSERT_EQ(world.a.post(other.a, request(WrOpcode::write, 2, {&sge, 1}, to.va, to.key)), 0);
  world.exchange();
  world.wire = [](Frame&) { return false; };
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 3, {&sge, 1}, to.va, to.key)), 0);
  ASSERT_EQ(world.a.receive(pair.a, 9), 0);
  world.exchange();
  ASSERT_EQ(world.a.modify(pair.a, QpState::reset), 0);
  world.a.cq->purge(pair.a->qpn().value());
  const auto left = world.a.poll();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].wr_id, 2u);
  EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::write, 4)), EINVAL);

  ASSERT_EQ(world.b.modify(pair.b, QpState::reset), 0);
  world.wire = [](Frame&) { return true; };
  world.a.to_init(pair.a, options);
  world.b.to_init(pair.b, options);
  world.a.to_rtr(pair.a, options, PathId{2}, pair.b->qpn(), Psn(50), world.b.gid);
  world.b.to_rtr(pair.b, options, PathId{1}, pair.a->qpn(), Psn(60), world.a.gid);
  world.a.to_rts(pair.a, options, Psn(60));
  world.b.to_rts(pair.b, options, Psn(50));
  world.b.memory.fill(to.va, 4096, 0);
  ASSERT_EQ(world.b.receive(pair.b, 20, {to.sge()}), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 5, {&sge, 1})), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].wr_id, 5u);
  EXPECT_EQ(world.completions(world.b, 1)[0].wr_id, 20u);
  EXPECT_TRUE(world.b.memory.holds(to.va, 4096, 6));
}

TEST(States, sqd_lets_what_began_finish_holds_the_rest_and_says_drained_once) {
  World world;
  const Pair pair = world.connect();
  const Region from = world.a.region(1 << 16);
  const Region to = world.b.region(1 << 16);
  const SgEntry sge = from.sge();
  for (uint64_t i = 0; i < 3; ++i)
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, i, {&sge, 1}, to.va, to.key)), 0);
  const auto first = world.outgoing(world.a);  // what the first window holds
  engine::QpAttributes a;
  a.state = QpState::sqd;
  a.en_sqd_async_notify = true;
  ASSERT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, QpMask::state | QpMask::en_sqd_async_notify), 0);
  engine::QpAttributes seen;
  bool draining = false;
  world.a.engine.query_qp(pair.a, seen, draining);
  EXPECT_EQ(seen.state, QpState::sqd);
  EXPECT_TRUE(draining);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 3, {&sge, 1}, to.va, to.key)), 0);
  for (const Frame& frame : first) world.deliver(world.b, frame);
  world.exchange();
  world.advance(1'000'000'000);
  const auto finished = world.a.poll();
  ASSERT_GE(finished.size(), 1u);
  EXPECT_LT(finished.size(), 4u);
  world.a.engine.query_qp(pair.a, seen, draining);
  EXPECT_FALSE(draining);
  EXPECT_EQ(count(world.a.events(), Event::Kind::async_qp, kSqDrained), 1u);
  ASSERT_EQ(world.a.modify(pair.a, QpState::rts), 0);
  const auto rest = world.completions(world.a, 4 - finished.size());
  uint64_t next = finished.size();
  for (const Completion& c : rest) EXPECT_EQ(c.wr_id, next++);
  EXPECT_EQ(count(world.a.events(), Event::Kind::async_qp, kSqDrained), 0u);
}

TEST(States, a_local_error_stops_an_unconnected_send_queue_in_sqe_and_its_receives_live_on) {
  World world;
  QueuePair* from = world.datagram_qp(world.a);
  QueuePair* to = world.datagram_qp(world.b);
  SendRequest r = request(WrOpcode::send, 1);
  const SgEntry bad{0x1000, 8, 0xbad};
  r.sges = {&bad, 1};
  r.ud_path = PathId{2};
  r.ud_qpn = to->qpn();
  r.ud_qkey = 0x11111111;
  ASSERT_EQ(world.a.post(from, r), 0);
  r.sges = {};
  r.wr_id = 2;
  ASSERT_EQ(world.a.post(from, r), 0);
  world.exchange();
  const auto done = world.a.poll();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, WcStatus::local_protection_error);
  EXPECT_EQ(done[1].status, WcStatus::flush_error);
  EXPECT_EQ(from->state(), QpState::sqe);
  const auto events = world.a.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Event::Kind::qp_state);
  EXPECT_EQ(events[0].id, from->qpn().value());
  EXPECT_EQ(events[0].async, static_cast<uint32_t>(QpState::sqe));

  const Region buffer = world.a.region(128);
  ASSERT_EQ(world.a.receive(from, 8, {buffer.sge()}), 0);
  r.ud_path = PathId{1};
  r.ud_qpn = from->qpn();
  ASSERT_EQ(world.b.post(to, r), 0);
  world.exchange();
  EXPECT_EQ(world.a.poll().at(0).status, WcStatus::success);

  ASSERT_EQ(world.a.modify(from, QpState::rts), 0);
  r.ud_path = PathId{2};
  r.ud_qpn = to->qpn();
  ASSERT_EQ(world.a.post(from, r), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
}

TEST(States, a_queue_pair_that_fails_by_itself_tells_its_state) {
  World world;
  QpOptions options;
  options.timeout = 8;
  options.retry_cnt = 0;
  const Pair pair = world.connect(options);
  world.wire = [](Frame&) { return false; };
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::retry_exceeded);
  const auto events = world.a.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Event::Kind::qp_state);
  EXPECT_EQ(events[0].async, static_cast<uint32_t>(QpState::error));
}

TEST(States, fail_all_flushes_every_queue) {
  World world;
  const Pair first = world.connect();
  const Pair second = world.connect();
  world.wire = [](Frame&) { return false; };
  for (QueuePair* qp : {first.a, second.a}) {
    ASSERT_EQ(world.a.post(qp, request(WrOpcode::send, 1)), 0);
    ASSERT_EQ(world.a.receive(qp, 2), 0);
  }
  world.exchange();
  world.a.engine.fail_all(world.now());
  EXPECT_EQ(world.a.poll().size(), 4u);
  EXPECT_EQ(first.a->state(), QpState::error);
  EXPECT_EQ(second.a->state(), QpState::error);
}

TEST(States, destroy_at_any_moment_leaves_nothing_behind) {
  World world;
  const Region from = world.a.region(1 << 16);
  const Region to = world.b.region(1 << 16);
  const SgEntry sge = from.sge();
  for (int stop = 0; stop < 60; ++stop) {
    QpOptions options;
    const Pair pair = world.connect(options);
    ASSERT_EQ(world.b.receive(pair.b, 1, {to.sge()}), 0);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, 1, {&sge, 1}, to.va, to.key)), 0);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 2, {&sge, 1})), 0);
    int n = 0;
    world.wire = [&n, stop](Frame&) { return n++ < stop; };
    world.exchange();
    EXPECT_EQ(world.a.engine.destroy_qp(world.now(), pair.a), 0);
    EXPECT_EQ(world.b.engine.destroy_qp(world.now(), pair.b), 0);
    EXPECT_EQ(world.a.engine.find_qp(Qpn::of(1, 16 + static_cast<uint32_t>(stop))), nullptr);
    world.wire = [](Frame&) { return true; };
    world.exchange();
    EXPECT_EQ(world.a.engine.next_deadline(), std::nullopt);
    EXPECT_EQ(world.b.engine.next_deadline(), std::nullopt);
    world.a.poll();
    world.b.poll();
  }
  EXPECT_EQ(world.a.engine.destroy_cq(world.a.cq), 0);
}

TEST(States, objects_in_use_cannot_be_destroyed) {
  World world;
  QpOptions options;
  options.srq = world.a.new_srq(4);
  options.send_cq = world.a.new_cq(16);
  QueuePair* qp = world.a.new_qp(options);
  EXPECT_EQ(world.a.engine.destroy_cq(options.send_cq), EBUSY);
  EXPECT_EQ(world.a.engine.destroy_cq(world.a.cq), EBUSY);
  EXPECT_EQ(world.a.engine.destroy_srq(options.srq), EBUSY);
  EXPECT_EQ(world.a.engine.destroy_qp(world.now(), qp), 0);
  EXPECT_EQ(world.a.engine.destroy_srq(options.srq), 0);
  EXPECT_EQ(world.a.engine.destroy_cq(options.send_cq), 0);
}

TEST(States, illegal_configurations_make_nothing) {
  World world;
  engine::QpConfig config;
  config.qpn = Qpn::of(1, 900);
  config.send_cq = config.recv_cq = world.a.cq;
  QueuePair* out = nullptr;
  const auto refused = [&](auto&& spoil, int error) {
    engine::QpConfig bad = config;
    spoil(bad);
    return world.a.engine.create_qp(bad, out) == error && out == nullptr;
  };
  EXPECT_TRUE(refused([](auto& c) { c.qpn = Qpn::of(3, 900); }, EINVAL));
  EXPECT_TRUE(refused([](auto& c) { c.capabilities.max_send_wr = 1u << 30; }, EINVAL));
  EXPECT_TRUE(refused([](auto& c) { c.capabilities.max_send_sge = 1000; }, EINVAL));
  EXPECT_TRUE(refused([](auto& c) { c.capabilities.max_inline = 1u << 20; }, EINVAL));
  EXPECT_TRUE(refused([](auto& c) { c.capabilities.max_recv_wr = 1u << 30; }, EINVAL));
  EXPECT_TRUE(refused([](auto& c) { c.send_cq = nullptr; }, EINVAL));
  EXPECT_TRUE(refused([&](auto& c) { c.type = QpType::uc, c.srq = world.a.new_srq(4); }, EINVAL));
  ASSERT_EQ(world.a.engine.create_qp(config, out), 0);
  QueuePair* twice = nullptr;
  EXPECT_EQ(world.a.engine.create_qp(config, twice), EEXIST);
  ASSERT_EQ(world.a.engine.destroy_qp(world.now(), out), 0);
  EXPECT_EQ(world.a.engine.destroy_cq(world.a.cq), 0);
}

TEST(States, receive_capabilities_are_ignored_beside_an_srq) {
  World world;
  QpOptions options;
  options.srq = world.a.new_srq(4);
  options.capabilities.max_recv_wr = 1u << 30;
  QueuePair* qp = world.a.new_qp(options);
  ASSERT_NE(qp, nullptr);
  world.a.to_init(qp, options);
  EXPECT_EQ(world.a.receive(qp, 1), EINVAL);
}

TEST(States, snapshot_tells_a_person_why) {
  World world;
  const Pair pair = world.connect();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {}, 0, 0)), 0);
  const std::string text = world.a.engine.snapshot(pair.a);
  EXPECT_NE(text.find("RC RTS"), std::string::npos);
  EXPECT_NE(text.find("1 open"), std::string::npos) << text;
}

}  // namespace
}  // namespace uroce::test
