// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// READs and atomics: depth, repetition, byte order.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

struct Reader : ::testing::Test {
  Reader() : local(world.a.region(1 << 20)), remote(world.b.region(1 << 20)) {
    world.b.memory.fill(remote.va, remote.length, 9);
  }
  void read(uint64_t id, uint64_t offset, uint32_t bytes) {
    const SgEntry sge = local.sge(offset, bytes);
    ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, id, {&sge, 1}, remote.va + offset, remote.key)),
              0);
  }
  void add(uint64_t id, uint64_t value) {
    const SgEntry sge = local.sge(8 * id, 8);
    SendRequest r = request(WrOpcode::fetch_add, id, {&sge, 1}, remote.va, remote.key);
    r.swap_or_add = value;
    ASSERT_EQ(world.a.post(pair.a, r), 0);
  }
  // Time without traffic; what is due is sent by the caller.
  void pass_time(int64_t ns) {
    world.skip(ns);
    world.b.engine.on_deadline(world.now());
  }
  World world;
  Region local;
  Region remote;
  Pair pair;
};

using Read = Reader;
using Atomic = Reader;

TEST_F(Read, no_more_requests_under_way_than_max_rd_atomic) {
  for (const uint8_t depth : {1, 4, 16}) {
    QpOptions options;
    options.max_rd_atomic = depth;
    pair = world.connect(options);
    int under_way = 0;
    int most = 0;
    world.wire = [&](Frame& frame) {
      const auto& info = frame.parse().info();
      if (frame.from == 1 && info.has(wire::OpcodeInfo::read)) most = std::max(most, ++under_way);
      if (frame.from == 2 && info.has(wire::OpcodeInfo::last)) --under_way;
      return true;
    };
    for (uint64_t i = 0; i < 40; ++i) read(i, 100 * i, 100);
    const auto done = world.completions(world.a, 40);
    for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(most, depth);
    EXPECT_EQ(std::memcmp(world.a.memory.at(local.va), world.b.memory.at(remote.va), 4000), 0);
  }
}

TEST_F(Read, depth_zero_at_the_requester_is_a_local_error_and_does_not_hang) {
  QpOptions options;
  options.max_rd_atomic = 0;
  pair = world.connect(options);
  read(1, 0, 8);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::local_qp_operation_error);
}

TEST_F(Read, depth_zero_at_the_responder_is_refused) {
  QpOptions weak;
  weak.max_dest_rd_atomic = 0;
  pair = world.connect({}, weak);
  read(1, 0, 8);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_invalid_request);
}

TEST_F(Read, more_requests_than_agreed_are_refused) {
  QpOptions small;
  small.max_dest_rd_atomic = 2;
  pair = world.connect({}, small);
  for (uint64_t i = 0; i < 3; ++i) read(i, 0, 8);
  const auto done = world.completions(world.a, 3);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::success);
  EXPECT_EQ(done[2].status, WcStatus::remote_invalid_request);
}

TEST_F(Read, a_repetition_on_its_way_does_not_count_as_a_request) {
  QpOptions options;
  options.max_rd_atomic = options.max_dest_rd_atomic = 1;
  pair = world.connect(options);
  std::vector<Frame> requests;
  world.wire = [&requests](Frame& frame) {
    if (frame.from == 1) requests.push_back(frame);
    return true;
  };
  read(1, 0, 8);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  // The network repeats the first request right before the second arrives.
  read(2, 0, 8);
  const auto second = world.outgoing(world.a);
  world.deliver(world.b, requests.at(0));
  for (const Frame& frame : second) world.deliver(world.b, frame);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
}

TEST_F(Read, every_single_response_may_be_lost) {
  QpOptions options;
  options.mtu = PathMtu::mtu_256;
  for (int which = 0; which < 24; ++which) {
    SCOPED_TRACE(which);
    pair = world.connect(options);
    std::memset(world.a.memory.at(local.va), 0, 8192);
    int n = 0;
    world.wire = [&n, which](Frame& frame) { return frame.from != 2 || n++ != which; };
    read(1, 0, 3000);
    read(2, 3000, 2500);
    const auto done = world.completions(world.a, 2);
    EXPECT_EQ(done[0].status, WcStatus::success);
    EXPECT_EQ(done[1].status, WcStatus::success);
    EXPECT_EQ(done[0].byte_len, 3000u);
    EXPECT_EQ(std::memcmp(world.a.memory.at(local.va), world.b.memory.at(remote.va), 5500), 0);
  }
}

TEST_F(Read, the_rest_is_asked_for_after_a_loss_not_the_whole) {
  QpOptions options;
  options.mtu = PathMtu::mtu_1024;
  pair = world.connect(options);
  int n = 0;
  world.tracing = true;
  world.wire = [&n](Frame& frame) { return frame.from != 2 || n++ != 10; };
  read(1, 0, 16 * 1024);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  int asked_again = 0;
  int asked_from_the_beginning = 0;
  for (const Frame& frame : world.trace) {
    const wire::Packet packet = frame.parse();
    if (frame.from != 1) continue;
    asked_from_the_beginning += packet.reth.va == remote.va;
    asked_again += packet.reth.va == remote.va + 10 * 1024 && packet.reth.length == 6 * 1024;
  }
  EXPECT_EQ(asked_from_the_beginning, 1);
  EXPECT_EQ(asked_again, 1);
  EXPECT_EQ(std::memcmp(world.a.memory.at(local.va), world.b.memory.at(remote.va), 16 * 1024), 0);
}

TEST_F(Read, a_response_of_the_wrong_length_is_a_bad_response) {
  pair = world.connect();
  read(1, 0, 100);
  world.outgoing(world.a);
  wire::Packet p;
  p.bth.opcode = Opcode::rc_read_response_only;
  p.bth.dest_qpn = pair.a->qpn();
  p.bth.psn = Psn(0xfffffa);
  world.inject(world.a, p, 104);
  EXPECT_EQ(world.a.poll().at(0).status, WcStatus::bad_response);
  EXPECT_TRUE(world.a.memory.is_zero(local.va, 200));
}

// A requester that asks for much at once cannot be told how much of it its buffer has taken.
TEST_F(Read, a_long_answer_to_a_foreign_requester_is_paced_and_complete) {
  QpOptions options;
  options.mtu = PathMtu::mtu_4096;
  pair = world.connect(options);
  wire::Packet ask;
  ask.bth.opcode = Opcode::rc_read_request;
  ask.bth.dest_qpn = pair.b->qpn();
  ask.bth.psn = Psn(0xfffffa);
  ask.reth = {remote.va, remote.key, 1 << 20};
  world.inject(world.b, ask);
  size_t packets = 0;
  size_t largest = 0;
  while (packets < 256) {
    const auto burst = world.outgoing(world.b);
    for (const Frame& frame : burst) {
      const wire::Packet p = frame.parse();
      EXPECT_EQ(p.bth.psn, Psn(0xfffffa) + static_cast<uint32_t>(packets));
      EXPECT_EQ(p.bth.opcode, packets == 0     ? Opcode::rc_read_response_first
                              : packets == 255 ? Opcode::rc_read_response_last
                                               : Opcode::rc_read_response_middle);
      EXPECT_EQ(p.payload.size(), 4096u);
      EXPECT_EQ(std::memcmp(p.payload.data(), world.b.memory.at(remote.va + packets * 4096), 4096), 0);
      ++packets;
    }
    largest = std::max(largest, burst.size());
    if (packets == 256) break;
    const auto next = world.b.engine.next_deadline();
    ASSERT_TRUE(next.has_value());
    ASSERT_GT(*next, world.now());
    pass_time(*next - world.now());
  }
  EXPECT_LE(largest * 4096, 160u << 10);
  EXPECT_GT(packets, largest);
}

TEST_F(Atomic, results_are_in_host_order_and_say_eight_bytes) {
  pair = world.connect();
  world.b.memory.set_word(remote.va, 0x0102030405060708);
  add(0, 0x1000);
  Completion done = world.completions(world.a, 1)[0];
  EXPECT_EQ(done.opcode, WcOpcode::fetch_add);
  EXPECT_EQ(done.byte_len, 8u);
  EXPECT_EQ(world.a.memory.word(local.va), 0x0102030405060708u);
  EXPECT_EQ(world.b.memory.word(remote.va), 0x0102030405061708u);
  const SgEntry sge = local.sge(8, 8);
  SendRequest r = request(WrOpcode::compare_swap, 1, {&sge, 1}, remote.va, remote.key);
  r.compare = 0x0102030405061708;
  r.swap_or_add = 42;
  ASSERT_EQ(world.a.post(pair.a, r), 0);
  r.wr_id = 2;
  ASSERT_EQ(world.a.post(pair.a, r), 0);
  const auto both = world.completions(world.a, 2);
  EXPECT_EQ(both[0].opcode, WcOpcode::compare_swap);
  EXPECT_EQ(world.b.memory.word(remote.va), 42u);
  EXPECT_EQ(world.a.memory.word(local.va + 8), 42u);  // of the second, which did not match
}

TEST_F(Atomic, a_lost_result_is_replayed_not_executed_again) {
  pair = world.connect();
  world.b.memory.set_word(remote.va, 0);
  int n = 0;
  world.wire = [&n](Frame& frame) { return frame.from != 2 || ++n % 3 != 0; };
  for (uint64_t i = 0; i < 100; ++i) add(i, 1);
  for (const Completion& c : world.completions(world.a, 100)) EXPECT_EQ(c.status, WcStatus::success);
  EXPECT_EQ(world.b.memory.word(remote.va), 100u);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(world.a.memory.word(local.va + 8 * i), i);
}

TEST_F(Atomic, flush_and_atomic_write_are_answered_in_order) {
  pair = world.connect();
  SendRequest write = request(WrOpcode::atomic_write, 1, {}, remote.va + 8, remote.key);
  write.swap_or_add = 0xabcdef;
  ASSERT_EQ(world.a.post(pair.a, write), 0);
  SendRequest flush = request(WrOpcode::flush, 2, {}, remote.va, remote.key);
  flush.flush_placement = 1;
  flush.flush_length = 64;
  ASSERT_EQ(world.a.post(pair.a, flush), 0);
  const auto done = world.completions(world.a, 2);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[0].opcode, WcOpcode::atomic_write);
  EXPECT_EQ(done[1].status, WcStatus::success);
  EXPECT_EQ(done[1].opcode, WcOpcode::flush);
  EXPECT_EQ(world.b.memory.word(remote.va + 8), 0xabcdefu);
}

}  // namespace
}  // namespace uroce::test
