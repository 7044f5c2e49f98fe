// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Shared receive queues, their limit, and XRC.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

size_t limit_events(const std::vector<Event>& events) {
  size_t n = 0;
  for (const Event& e : events) n += e.kind == Event::Kind::async_srq && e.async == 15;
  return n;
}

struct Shared : ::testing::Test {
  Shared() : srq(world.b.new_srq(16)), buffer(world.b.region(4096)) {
    of_b.srq = srq;
    pair = world.connect({}, of_b);
  }
  void fill(uint64_t receives) {
    for (uint64_t i = 0; i < receives; ++i) ASSERT_EQ(world.b.receive(srq, next++, {buffer.sge(0, 64)}), 0);
  }
  void send(QueuePair* qp, uint64_t messages) {
    for (uint64_t i = 0; i < messages; ++i) ASSERT_EQ(world.a.post(qp, request(WrOpcode::send, i)), 0);
  }
  World world;
  engine::SharedReceiveQueue* srq;
  Region buffer;
  QpOptions of_b;
  Pair pair;
  uint64_t next = 0;
};

using Srq = Shared;

TEST_F(Srq, feeds_several_queue_pairs_in_the_order_of_posting) {
  const Pair second = world.connect({}, of_b);
  fill(4);
  send(pair.a, 1);
  world.exchange();
  send(second.a, 2);
  world.exchange();
  send(pair.a, 1);
  const auto received = world.completions(world.b, 4);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(received[i].wr_id, i);
  EXPECT_EQ(received[0].qp_num, pair.b->qpn().value());
  EXPECT_EQ(received[1].qp_num, second.b->qpn().value());
  EXPECT_EQ(received[0].srq_number, 0u);
}

TEST_F(Srq, empty_queue_is_receiver_not_ready) {
  send(pair.a, 1);
  world.exchange();
  EXPECT_EQ(world.b.engine.counters().send_rnr_err, 1u);
  fill(1);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
}

TEST_F(Srq, limit_fires_once_below_and_disarms) {
  fill(10);
  ASSERT_EQ(world.b.engine.modify_srq(world.now(), srq, 7), 0);
  EXPECT_EQ(srq->armed_limit(), 7u);
  send(pair.a, 3);
  world.exchange();
  EXPECT_EQ(limit_events(world.b.events()), 0u);
  send(pair.a, 1);
  world.exchange();
  const auto events = world.b.events();
  EXPECT_EQ(limit_events(events), 1u);
  EXPECT_EQ(events.back().id, srq->number());
  EXPECT_EQ(srq->armed_limit(), 0u);
  send(pair.a, 2);
  world.exchange();
  EXPECT_EQ(limit_events(world.b.events()), 0u);
}

TEST_F(Srq, limit_armed_while_below_fires_at_once) {
  fill(2);
  ASSERT_EQ(world.b.engine.modify_srq(world.now(), srq, 5), 0);
  EXPECT_EQ(limit_events(world.b.events()), 1u);
  EXPECT_EQ(world.b.engine.modify_srq(world.now(), srq, 17), EINVAL);
}

TEST_F(Srq, full_and_too_many_entries) {
  fill(16);
  EXPECT_EQ(world.b.receive(srq, 99), ENOMEM);
  EXPECT_EQ(world.b.receive(srq, 99, std::vector<SgEntry>(5)), EINVAL);
}

TEST_F(Srq, receives_are_not_flushed_when_a_queue_pair_of_it_fails) {
  fill(3);
  ASSERT_EQ(world.b.modify(pair.b, QpState::error), 0);
  EXPECT_TRUE(world.b.poll().empty());
  const Pair second = world.connect({}, of_b);
  send(second.a, 3);
  EXPECT_EQ(world.completions(world.b, 3)[2].wr_id, 2u);
}

TEST_F(Srq, datagrams_use_it_too) {
  QpOptions ud{QpType::ud};
  ud.srq = srq;
  QueuePair* to = world.datagram_qp(world.b, ud);
  QueuePair* from = world.datagram_qp(world.a);
  fill(1);
  SendRequest r = request(WrOpcode::send, 1);
  r.ud_path = PathId{2};
  r.ud_qpn = to->qpn();
  r.ud_qkey = ud.qkey;
  ASSERT_EQ(world.a.post(from, r), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].byte_len, 40u);
}

// ---- XRC ------------------------------------------------------------------------------------------

struct Xrc : ::testing::Test {
  Xrc() {
    initiator.type = QpType::xrc_initiator;
    target.type = QpType::xrc_target;
    target.xrc_domain = 5;
    first = world.b.new_srq(8, true, 5);
    second = world.b.new_srq(8, true, 5);
    foreign = world.b.new_srq(8, true, 6);
    pair = world.connect(initiator, target);
    buffer = world.b.region(8192);
  }
  int send(engine::SharedReceiveQueue* to, uint64_t id, std::span<const SgEntry> sges = {}) {
    SendRequest r = request(WrOpcode::send, id, sges);
    r.xrc_srqn = to->number();
    return world.a.post(pair.a, r);
  }
  World world;
  QpOptions initiator;
  QpOptions target;
  engine::SharedReceiveQueue* first;
  engine::SharedReceiveQueue* second;
  engine::SharedReceiveQueue* foreign;
  Pair pair;
  Region buffer;
};

TEST_F(Xrc, each_message_names_its_queue) {
  const Region from = world.a.region(8192);
  world.a.memory.fill(from.va, 8192, 2);
  ASSERT_EQ(world.b.receive(first, 1, {buffer.sge()}), 0);
  ASSERT_EQ(world.b.receive(second, 2, {buffer.sge()}), 0);
  const SgEntry sge = from.sge(0, 5000);
  ASSERT_EQ(send(second, 10, {&sge, 1}), 0);
  const Completion received = world.completions(world.b, 1)[0];
  EXPECT_EQ(received.wr_id, 2u);
  EXPECT_EQ(received.srq_number, second->number());
  EXPECT_EQ(received.qp_num, pair.b->qpn().value());
  EXPECT_EQ(received.byte_len, 5000u);
  EXPECT_TRUE(world.b.memory.holds(buffer.va, 5000, 2));
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  ASSERT_EQ(send(first, 11), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].srq_number, first->number());
}

TEST_F(Xrc, empty_queue_waits_and_the_others_go_on_afterwards) {
  ASSERT_EQ(world.b.receive(second, 2), 0);
  ASSERT_EQ(send(first, 1), 0);
  ASSERT_EQ(send(second, 2), 0);
  world.exchange();
  EXPECT_TRUE(world.a.poll().empty());
  ASSERT_EQ(world.b.receive(first, 1), 0);
  const auto done = world.completions(world.a, 2);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[1].wr_id, 2u);
}

TEST_F(Xrc, queue_of_another_domain_is_refused) {
  ASSERT_EQ(world.b.receive(foreign, 1), 0);
  ASSERT_EQ(send(foreign, 1), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_invalid_request);
}

TEST_F(Xrc, writes_reads_and_atomics_go_to_the_domain_of_the_queue_they_name) {
  const Region from = world.a.region(4096);
  const Region back = world.a.region(4096);
  world.a.memory.fill(from.va, 4096, 3);
  const SgEntry sge = from.sge(0, 4000);
  const SgEntry into = back.sge(0, 4000);
  const SgEntry word = back.sge(4000, 8);
  SendRequest write = request(WrOpcode::write, 1, {&sge, 1}, buffer.va, buffer.key);
  SendRequest read = request(WrOpcode::read, 2, {&into, 1}, buffer.va, buffer.key);
  SendRequest add = request(WrOpcode::fetch_add, 3, {&word, 1}, buffer.va + 4096, buffer.key);
  add.swap_or_add = 4;
  for (SendRequest* r : {&write, &read, &add}) {
    r->xrc_srqn = first->number();
    ASSERT_EQ(world.a.post(pair.a, *r), 0);
  }
  for (const Completion& c : world.completions(world.a, 3)) EXPECT_EQ(c.status, WcStatus::success);
  EXPECT_TRUE(world.b.memory.holds(buffer.va, 4000, 3));
  EXPECT_TRUE(world.a.memory.holds(back.va, 4000, 3));
  EXPECT_EQ(world.b.memory.word(buffer.va + 4096), 4u);
  const Region other = world.b.region(64, kAllAccess, kPd + 1);
  SendRequest wrong = request(WrOpcode::write, 4, {}, other.va, other.key);
  const SgEntry eight = from.sge(0, 8);
  wrong.sges = {&eight, 1};
  wrong.xrc_srqn = first->number();
  ASSERT_EQ(world.a.post(pair.a, wrong), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_access_error);
}

TEST_F(Xrc, a_queue_that_is_destroyed_inside_a_message_ends_the_message) {
  const Region from = world.a.region(8192);
  const SgEntry sge = from.sge(0, 5000);
  ASSERT_EQ(world.b.receive(first, 1, {buffer.sge()}), 0);
  ASSERT_EQ(send(first, 1, {&sge, 1}), 0);
  const auto frames = world.outgoing(world.a);
  world.deliver(world.b, frames[0]);
  ASSERT_EQ(world.b.engine.destroy_srq(first), 0);
  for (size_t i = 1; i < frames.size(); ++i) world.deliver(world.b, frames[i]);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_invalid_request);
}

TEST_F(Xrc, targets_take_no_posts) {
  EXPECT_EQ(world.b.post(pair.b, request(WrOpcode::send, 1)), EINVAL);
  EXPECT_EQ(world.b.receive(pair.b, 1), EINVAL);
  EXPECT_EQ(world.a.receive(pair.a, 1), EINVAL);
}

}  // namespace
}  // namespace uroce::test
