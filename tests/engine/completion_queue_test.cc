// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/completion_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

constexpr uint32_t kCqError = 0, kQpFatal = 1;

Completion numbered(uint64_t id, uint32_t qpn = 1) {
  Completion c;
  c.wr_id = id;
  c.qp_num = qpn;
  return c;
}

size_t notifications(const std::vector<Event>& events) {
  size_t n = 0;
  for (const Event& e : events) n += e.kind == Event::Kind::completion;
  return n;
}

TEST(CompletionQueue, keeps_order_and_exactly_its_capacity) {
  CompletionQueue cq(1, 5, false);
  bool notify;
  Completion out[8];
  uint64_t in = 0;
  uint64_t next = 0;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(cq.push(numbered(in++), false, notify));
    EXPECT_EQ(cq.poll(2, out), 2u);
    EXPECT_EQ(out[0].wr_id, next++);
    EXPECT_EQ(out[1].wr_id, next++);
    ASSERT_NE(cq.peek(), nullptr);
    EXPECT_EQ(cq.peek()->wr_id, next++);
    cq.consume();
    EXPECT_EQ(cq.poll(8, out), 2u);
    EXPECT_EQ(out[1].wr_id, next + 1);
    next += 2;
    EXPECT_TRUE(cq.empty());
    EXPECT_EQ(cq.peek(), nullptr);
    EXPECT_EQ(cq.poll(8, out), 0u);
  }
}

TEST(CompletionQueue, overrun_loses_what_is_new_and_stays) {
  CompletionQueue cq(1, 2, false);
  bool notify;
  EXPECT_TRUE(cq.push(numbered(0), false, notify));
  EXPECT_TRUE(cq.push(numbered(1), false, notify));
  EXPECT_FALSE(cq.push(numbered(2), false, notify));
  EXPECT_TRUE(cq.overrun());
  Completion out[4];
  EXPECT_EQ(cq.poll(4, out), 2u);
  EXPECT_EQ(out[1].wr_id, 1u);
  EXPECT_FALSE(cq.push(numbered(3), false, notify));
  EXPECT_EQ(cq.poll(4, out), 0u);
}

TEST(CompletionQueue, ignored_overrun_loses_what_is_oldest) {
  CompletionQueue cq(1, 4, true);
  bool notify;
  for (uint64_t i = 0; i < 11; ++i) EXPECT_TRUE(cq.push(numbered(i), false, notify));
  EXPECT_FALSE(cq.overrun());
  Completion out[8];
  EXPECT_EQ(cq.poll(8, out), 4u);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(out[i].wr_id, 7 + i);
}

TEST(CompletionQueue, purge_takes_one_queue_pairs_and_keeps_the_order_of_the_rest) {
  CompletionQueue cq(1, 16, false);
  bool notify;
  for (uint64_t i = 0; i < 12; ++i) cq.push(numbered(i, i % 3 == 0 ? 5 : 6), false, notify);
  cq.purge(5);
  Completion out[16];
  ASSERT_EQ(cq.poll(16, out), 8u);
  const uint64_t left[] = {1, 2, 4, 5, 7, 8, 10, 11};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i].wr_id, left[i]);
}

TEST(CompletionQueue, resize_keeps_content_order_and_arming) {
  CompletionQueue cq(1, 4, false);
  bool notify;
  Completion out[16];
  for (uint64_t i = 0; i < 3; ++i) cq.push(numbered(i), false, notify);
  cq.poll(1, out);
  for (uint64_t i = 3; i < 5; ++i) cq.push(numbered(i), false, notify);
  cq.arm(false);
  EXPECT_EQ(cq.resize(3), EINVAL);
  EXPECT_EQ(cq.resize(0), EINVAL);
  EXPECT_EQ(cq.capacity(), 4u);
  EXPECT_EQ(cq.resize(9), 0);
  EXPECT_EQ(cq.capacity(), 9u);
  for (uint64_t i = 5; i < 10; ++i) {
    EXPECT_TRUE(cq.push(numbered(i), false, notify));
    EXPECT_EQ(notify, i == 5);
  }
  EXPECT_EQ(cq.resize(9), 0);
  ASSERT_EQ(cq.poll(16, out), 9u);
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(out[i].wr_id, i + 1);
}

TEST(CompletionQueue, arming_fires_once_and_not_for_what_is_there) {
  CompletionQueue cq(1, 16, false);
  bool notify = true;
  cq.push(numbered(0), false, notify);
  EXPECT_FALSE(notify);
  cq.arm(false);
  cq.push(numbered(1), false, notify);
  EXPECT_TRUE(notify);
  cq.push(numbered(2), false, notify);
  EXPECT_FALSE(notify);
}

TEST(CompletionQueue, solicited_arming_waits_for_solicited_or_failed) {
  CompletionQueue cq(1, 16, false);
  bool notify = true;
  cq.arm(true);
  cq.push(numbered(0), false, notify);
  EXPECT_FALSE(notify);
  cq.push(numbered(1), true, notify);
  EXPECT_TRUE(notify);
  cq.arm(true);
  Completion failed = numbered(2);
  failed.status = WcStatus::flush_error;
  cq.push(failed, false, notify);
  EXPECT_TRUE(notify);
  cq.arm(true);
  cq.arm(false);  // widens
  cq.push(numbered(3), false, notify);
  EXPECT_TRUE(notify);
  cq.arm(false);
  cq.arm(true);  // does not narrow
  cq.push(numbered(4), false, notify);
  EXPECT_TRUE(notify);
}

TEST(CompletionQueue, a_moderated_notification_waits_for_company) {
  CompletionQueue cq(1, 16, false);
  bool notify = true;
  cq.moderate(3);
  cq.push(numbered(0), false, notify);  // not armed: does not count
  cq.arm(false);
  for (uint64_t i = 1; i <= 3; ++i) {
    cq.push(numbered(i), false, notify);
    EXPECT_EQ(notify, i == 3);
  }
  EXPECT_FALSE(cq.release()) << "nothing is held";
  cq.arm(false);
  cq.push(numbered(4), false, notify);
  EXPECT_FALSE(notify);
  EXPECT_EQ(cq.held(), 1u);
  EXPECT_TRUE(cq.release());
  cq.push(numbered(5), false, notify);
  EXPECT_FALSE(notify) << "it has fired";
}

TEST(CompletionQueue, moderation_holds_neither_a_failure_nor_what_fills_the_queue) {
  CompletionQueue cq(1, 4, false);
  bool notify = true;
  cq.moderate(100);
  cq.arm(false);
  Completion failed = numbered(0);
  failed.status = WcStatus::flush_error;
  cq.push(failed, false, notify);
  EXPECT_TRUE(notify);
  Completion out[4];
  EXPECT_EQ(cq.poll(4, out), 1u);
  cq.arm(false);
  for (uint64_t i = 1; i <= 4; ++i) {
    cq.push(numbered(i), false, notify);
    EXPECT_EQ(notify, i == 4);
  }
}

// The consumer's loop of ibv_get_cq_event(3), against a producer in another thread: no wake-up may be lost.
TEST(CompletionQueue, no_wake_up_is_lost_between_the_last_poll_and_arming) {
  constexpr uint64_t kMessages = 200'000;
  CompletionQueue cq(1, 64, false);
  std::atomic<uint64_t> events{0};
  std::atomic<uint64_t> taken{0};
  std::thread producer([&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      while (i - taken.load(std::memory_order_acquire) >= 64) std::this_thread::yield();
      bool notify;
      ASSERT_TRUE(cq.push(numbered(i), false, notify));
      if (notify) {
        events.fetch_add(1, std::memory_order_release);
        events.notify_one();
      }
    }
  });
  uint64_t next = 0;
  uint64_t seen = 0;
  Completion out[16];
  const auto drain = [&] {
    while (const uint32_t n = cq.poll(16, out)) {
      for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(out[i].wr_id, next++);
      taken.store(next, std::memory_order_release);
    }
  };
  while (next < kMessages) {
    cq.arm(false);
    drain();
    if (next == kMessages) break;
    events.wait(seen, std::memory_order_acquire);  // would hang for ever if the event were lost
    ++seen;
    drain();
  }
  producer.join();
  EXPECT_EQ(next, kMessages);
}

// ---- with an engine -----------------------------------------------------------------------------

TEST(CompletionEvents, moderation_ends_with_its_period_or_its_count) {
  World world;
  const Pair pair = world.connect();
  for (uint64_t i = 0; i < 12; ++i) ASSERT_EQ(world.b.receive(pair.b, i), 0);
  world.b.engine.moderate_cq(world.b.cq, 3, 50);
  const auto message = [&] {
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
    world.exchange();
  };
  world.b.cq->arm(false);
  message();
  EXPECT_EQ(notifications(world.b.events()), 0u);
  world.advance(49'000);
  EXPECT_EQ(notifications(world.b.events()), 0u);
  world.advance(1'000);
  EXPECT_EQ(notifications(world.b.events()), 1u);
  world.b.cq->arm(false);
  message();
  message();
  EXPECT_EQ(notifications(world.b.events()), 0u);
  message();
  EXPECT_EQ(notifications(world.b.events()), 1u);
  world.advance(1'000'000);
  EXPECT_EQ(notifications(world.b.events()), 0u);
  // A count of 0: as many as come within the period.
  world.b.engine.moderate_cq(world.b.cq, 0, 50);
  world.b.cq->arm(false);
  for (int i = 0; i < 2; ++i) message();
  EXPECT_EQ(notifications(world.b.events()), 0u);
  world.advance(50'000);
  EXPECT_EQ(notifications(world.b.events()), 1u);
  world.b.engine.moderate_cq(world.b.cq, 3, 50);
  // What is held when moderation ends does not wait any longer.
  world.b.cq->arm(false);
  message();
  world.b.engine.moderate_cq(world.b.cq, 0, 0);
  EXPECT_EQ(notifications(world.b.events()), 1u);
  world.b.cq->arm(false);
  message();
  EXPECT_EQ(notifications(world.b.events()), 1u);
}

TEST(CompletionEvents, a_moderated_queue_that_is_destroyed_leaves_no_timer) {
  World world;
  const Pair pair = world.connect();
  world.b.engine.moderate_cq(world.b.cq, 0, 1000);
  world.b.cq->arm(false);
  ASSERT_EQ(world.b.receive(pair.b, 0), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  world.exchange();
  EXPECT_EQ(notifications(world.b.events()), 0u);
  ASSERT_TRUE(world.b.engine.next_deadline());
  ASSERT_EQ(world.b.engine.destroy_qp(world.now(), pair.b), 0);
  ASSERT_EQ(world.b.engine.destroy_cq(world.b.cq), 0);
  EXPECT_FALSE(world.b.engine.next_deadline());
}

TEST(CompletionEvents, one_event_for_each_arming) {
  World world;
  const Pair pair = world.connect();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(world.b.receive(pair.b, i), 0);
  world.b.cq->arm(false);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 2)), 0);
  world.exchange();
  auto events = world.b.events();
  ASSERT_EQ(notifications(events), 1u);
  EXPECT_EQ(events[0].id, world.b.cq->id());
  world.b.poll();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 3)), 0);
  world.exchange();
  EXPECT_EQ(notifications(world.b.events()), 0u);
  // Two armings that both fired before anybody looked are two events.
  world.b.poll();
  world.b.cq->arm(false);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 4)), 0);
  world.exchange();
  world.b.cq->arm(false);
  ASSERT_EQ(world.b.receive(pair.b, 5), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 5)), 0);
  world.exchange();
  EXPECT_EQ(notifications(world.b.events()), 2u);
}

TEST(CompletionEvents, the_solicited_bit_travels_in_the_last_packet) {
  for (const WrOpcode opcode : {WrOpcode::send, WrOpcode::write_imm}) {
    World world;
    QpOptions options;
    options.mtu = PathMtu::mtu_256;
    const Pair pair = world.connect(options);
    const Region from = world.a.region(1024);
    const Region to = world.b.region(1024);
    const SgEntry sge = from.sge();
    for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(world.b.receive(pair.b, i, {to.sge()}), 0);
    world.b.cq->arm(true);
    world.a.cq->arm(true);
    SendRequest r = request(opcode, 1, {&sge, 1}, to.va, to.key);
    ASSERT_EQ(world.a.post(pair.a, r), 0);
    world.exchange();
    EXPECT_EQ(notifications(world.b.events()), 0u);
    r.flags.solicited = true;
    ASSERT_EQ(world.a.post(pair.a, r), 0);
    world.exchange();
    EXPECT_EQ(notifications(world.b.events()), 1u);
    EXPECT_EQ(notifications(world.a.events()), 0u);  // own good sends are never solicited
  }
}

TEST(CompletionEvents, overrun_is_one_event_and_the_queue_pairs_of_the_cq_end) {
  World world;
  QpOptions options;
  options.send_cq = world.a.new_cq(4);
  const Region to = world.b.region(64);
  Pair pair = world.connect(options, {});
  Pair second = world.connect(options, {});
  Pair other = world.connect();
  world.a.events();
  for (uint64_t i = 0; i < 8; ++i)
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, i, {}, to.va, to.key)), 0);
  world.exchange();
  size_t cq_errors = 0;
  size_t fatal = 0;
  for (const Event& e : world.a.events()) {
    cq_errors += e.kind == Event::Kind::async_cq && e.async == kCqError && e.id == options.send_cq->id();
    fatal += e.kind == Event::Kind::async_qp && e.async == kQpFatal;
  }
  EXPECT_EQ(cq_errors, 1u);
  EXPECT_EQ(fatal, 2u);
  EXPECT_EQ(pair.a->state(), QpState::error);
  EXPECT_EQ(second.a->state(), QpState::error);
  EXPECT_EQ(other.a->state(), QpState::rts);
  const auto valid = world.a.poll(options.send_cq);
  ASSERT_EQ(valid.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(valid[i].wr_id, i);
  EXPECT_TRUE(world.a.poll(options.send_cq).empty());
}

TEST(CompletionEvents, a_receive_cq_that_overruns_does_not_acknowledge_lost_data) {
  World world;
  QpOptions of_b;
  of_b.recv_cq = world.b.new_cq(1);
  const Pair pair = world.connect({}, of_b);
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(world.b.receive(pair.b, i), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 2)), 0);
  const auto done = world.completions(world.a, 2);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::remote_operation_error);
  EXPECT_EQ(pair.b->state(), QpState::error);
}

TEST(CompletionEvents, events_of_a_destroyed_queue_are_gone) {
  World world;
  QpOptions options;
  options.send_cq = world.a.new_cq(16);
  const Pair pair = world.connect(options, {});
  options.send_cq->arm(false);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1)), 0);
  world.exchange();
  ASSERT_EQ(world.a.engine.destroy_qp(world.now(), pair.a), 0);
  ASSERT_EQ(world.a.engine.destroy_cq(options.send_cq), 0);
  EXPECT_TRUE(world.a.events().empty());
}

TEST(CompletionEvents, a_thousand_queues_fire_each_once) {
  World world;
  std::vector<CompletionQueue*> queues;
  for (int i = 0; i < 1000; ++i) {
    QpOptions options;
    options.send_cq = world.a.new_cq(4);
    options.capabilities = {4, 4, 1, 1, 0};
    const Pair pair = world.connect(options, options);
    options.send_cq->arm(false);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1)), 0);
  }
  world.exchange();
  const auto events = world.a.events();
  EXPECT_EQ(notifications(events), 1000u);
}

}  // namespace
}  // namespace uroce::test
