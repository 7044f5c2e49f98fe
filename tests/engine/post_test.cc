// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Posting: what is refused at once and with which number, inline data, gather lists.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

TEST(Post, wrong_states_are_refused) {
  World world;
  QpOptions options;
  QueuePair* qp = world.a.new_qp(options);
  EXPECT_EQ(world.a.receive(qp, 1), EINVAL);
  EXPECT_EQ(world.a.post(qp, request(WrOpcode::send, 1)), EINVAL);
  world.a.to_init(qp, options);
  EXPECT_EQ(world.a.receive(qp, 1), 0);
  EXPECT_EQ(world.a.post(qp, request(WrOpcode::send, 1)), EINVAL);
  world.a.to_rtr(qp, options, PathId{2}, Qpn(9), Psn(0), world.b.gid);
  EXPECT_EQ(world.a.post(qp, request(WrOpcode::send, 1)), EINVAL);
  world.a.to_rts(qp, options, Psn(0));
  EXPECT_EQ(world.a.post(qp, request(WrOpcode::send, 1)), 0);
}

TEST(Post, a_receive_posted_in_init_is_used_in_rtr) {
  World world;
  QpOptions options;
  Pair pair{world.a.new_qp(options), world.b.new_qp(options)};
  world.a.to_init(pair.a, options);
  world.b.to_init(pair.b, options);
  ASSERT_EQ(world.b.receive(pair.b, 42), 0);
  world.a.to_rtr(pair.a, options, PathId{2}, pair.b->qpn(), Psn(0), world.b.gid);
  world.b.to_rtr(pair.b, options, PathId{1}, pair.a->qpn(), Psn(7), world.a.gid);
  world.a.to_rts(pair.a, options, Psn(7));
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1)), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].wr_id, 42u);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
}

TEST(Post, queue_full_is_enomem_and_a_completion_makes_room) {
  World world;
  QpOptions options;
  options.capabilities.max_send_wr = 4;
  options.capabilities.max_recv_wr = 3;
  const Pair pair = world.connect(options);
  const Region target = world.b.region(64);
  for (uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::write, i, {}, target.va, target.key)), 0);
  EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::write, 4, {}, target.va, target.key)), ENOMEM);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(world.a.receive(pair.a, i), 0);
  EXPECT_EQ(world.a.receive(pair.a, 3), ENOMEM);
  const auto done = world.completions(world.a, 4);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(done[i].wr_id, i);
  EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::write, 4, {}, target.va, target.key)), 0);
}

TEST(Post, a_request_takes_its_place_until_its_completion_is_polled) {
  World world;
  QpOptions options;
  options.signal_all = false;
  options.capabilities.max_send_wr = 3;
  options.capabilities.max_recv_wr = 2;
  const Pair pair = world.connect(options);
  const auto send = [&](bool signaled = true) {
    SendRequest r = request(WrOpcode::send, 1);
    r.flags.signaled = signaled;
    return world.a.post(pair.a, r);
  };
  const auto receive = [&] { return world.b.receive(pair.b, 1); };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(receive(), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(send(), 0);
  world.exchange();
  EXPECT_EQ(receive(), ENOMEM) << "both have completed, and nobody has looked";
  EXPECT_EQ(pair.a->check_send(request(WrOpcode::send, 1), 0), 0);
  EXPECT_EQ(pair.a->check_send(request(WrOpcode::send, 1), 1), ENOMEM) << "lists are judged alike";
  Completion one;
  ASSERT_EQ(world.b.cq->poll(1, &one), 1u);
  EXPECT_EQ(receive(), 0);
  EXPECT_EQ(receive(), ENOMEM);
  EXPECT_EQ(send(false), 0);
  EXPECT_EQ(send(), ENOMEM);
  world.exchange();
  EXPECT_EQ(send(), 0) << "what has no completion frees its place by itself";
  EXPECT_EQ(send(), ENOMEM);
  // RESET frees everything and takes the completions along.
  ASSERT_EQ(world.b.modify(pair.b, QpState::reset), 0);
  EXPECT_TRUE(world.b.cq->empty());
  world.b.to_init(pair.b, options);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(receive(), 0);
  EXPECT_EQ(receive(), ENOMEM);
}

TEST(Post, too_many_entries_too_much_inline_and_foreign_opcodes_are_einval) {
  World world;
  QpOptions options;
  options.capabilities = {8, 8, 2, 2, 32};
  const Pair pair = world.connect(options);
  const SgEntry three[3] = {};
  EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1, three)), EINVAL);
  EXPECT_EQ(world.a.receive(pair.a, 1, {three[0], three[1], three[2]}), EINVAL);
  std::byte data[33] = {};
  const std::span<const std::byte> part(data, 33);
  SendRequest r = request(WrOpcode::send, 1);
  r.flags.inline_data = true;
  r.inline_parts = {&part, 1};
  EXPECT_EQ(world.a.post(pair.a, r), EINVAL);
  r.opcode = WrOpcode::read;
  EXPECT_EQ(world.a.post(pair.a, r), EINVAL);
  r = request(static_cast<WrOpcode>(77), 1);
  EXPECT_EQ(world.a.post(pair.a, r), EINVAL);

  QpOptions uc = options;
  uc.type = QpType::uc;
  const Pair unreliable = world.connect(uc);
  EXPECT_EQ(world.a.post(unreliable.a, request(WrOpcode::read, 1)), EINVAL);
  EXPECT_EQ(world.a.post(unreliable.a, request(WrOpcode::fetch_add, 1)), EINVAL);
  QueuePair* ud = world.datagram_qp(world.a);
  r = request(WrOpcode::write, 1);
  r.ud_path = PathId{2};
  EXPECT_EQ(world.a.post(ud, r), EINVAL);
}

TEST(Post, a_sum_of_lengths_beyond_32_bits_is_not_small) {
  World world;
  const Pair pair = world.connect();
  const SgEntry huge[2] = {{0, 0xffffffff, 1}, {0, 33, 1}};
  EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, huge)), EINVAL);
  const std::span<const std::byte> parts[2] = {{static_cast<std::byte*>(nullptr), 0xffffffff},
                                               {static_cast<std::byte*>(nullptr), 33}};
  SendRequest r = request(WrOpcode::send, 1);
  r.flags.inline_data = true;
  r.inline_parts = parts;
  EXPECT_EQ(world.a.post(pair.a, r), EINVAL);
  const SgEntry above[2] = {{0, 0x80000000, 1}, {0, 1, 1}};
  EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1, above)), EINVAL);
}

TEST(Post, inline_data_is_copied_at_once_and_sent_again_from_the_copy) {
  World world;
  const Pair pair = world.connect();
  const Region target = world.b.region(64);
  std::byte data[16];
  std::memset(data, 0x11, sizeof data);
  const std::span<const std::byte> part(data, sizeof data);
  SendRequest r = request(WrOpcode::write, 1, {}, target.va, target.key);
  r.flags.inline_data = true;
  r.inline_parts = {&part, 1};
  ASSERT_EQ(world.a.post(pair.a, r), 0);
  std::memset(data, 0x22, sizeof data);
  int lost = 0;
  world.wire = [&lost](Frame& frame) { return frame.from != 1 || lost++ >= 2; };
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  EXPECT_EQ(lost, 3);
  EXPECT_EQ(world.b.memory.word(target.va), 0x1111111111111111u);
}

TEST(Post, gather_and_scatter_lists_with_empty_entries) {
  World world;
  QpOptions options;
  options.mtu = PathMtu::mtu_256;
  const Pair pair = world.connect(options);
  const Region from = world.a.region(8192);
  const Region to = world.b.region(8192);
  world.a.memory.fill(from.va, 8192, 3);
  const SgEntry junk{0xdead0000, 0, 0xbad};
  const SgEntry gather[] = {from.sge(0, 1),   junk, from.sge(1, 254),
                            from.sge(255, 3), junk, from.sge(258, 2000)};
  ASSERT_EQ(world.b.receive(pair.b, 1, {junk, to.sge(0, 255), to.sge(255, 2), junk, to.sge(257, 4000)}), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::send, 1, gather)), 0);
  EXPECT_EQ(world.completions(world.b, 1)[0].byte_len, 2258u);
  EXPECT_TRUE(world.b.memory.holds(to.va, 2258, 3));
  EXPECT_TRUE(world.b.memory.is_zero(to.va + 2258, 100));
}

TEST(Post, unsignaled_requests_complete_silently_unless_the_queue_pair_signals_all) {
  World world;
  const Region target = world.b.region(64);
  for (const bool all : {false, true}) {
    QpOptions options;
    options.signal_all = all;
    const Pair pair = world.connect(options);
    SendRequest r = request(WrOpcode::write, 0, {}, target.va, target.key);
    r.flags.signaled = false;
    for (uint64_t i = 0; i < 10; ++i) {
      r.wr_id = i;
      ASSERT_EQ(world.a.post(pair.a, r), 0);
    }
    world.exchange();
    EXPECT_EQ(world.a.poll().size(), all ? 10u : 0u);
  }
}

TEST(Post, a_fenced_request_waits_for_the_read_before_it) {
  World world;
  QpOptions options;
  options.timeout = 14;
  const Pair pair = world.connect(options);
  const Region local = world.a.region(64);
  const Region source = world.b.region(64);
  const Region target = world.b.region(64);
  world.b.memory.set_word(source.va, 0x77);
  const SgEntry sge = local.sge(0, 8);
  int responses = 0;
  world.wire = [&responses](Frame& frame) {
    return frame.parse().bth.opcode != Opcode::rc_read_response_only || responses++ > 0;
  };
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, 1, {&sge, 1}, source.va, source.key)), 0);
  SendRequest fenced = request(WrOpcode::write, 2, {&sge, 1}, target.va, target.key);
  fenced.flags.fence = true;
  ASSERT_EQ(world.a.post(pair.a, fenced), 0);
  const auto done = world.completions(world.a, 2);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[1].wr_id, 2u);
  EXPECT_EQ(world.b.memory.word(target.va), 0x77u);
}

}  // namespace
}  // namespace uroce::test
