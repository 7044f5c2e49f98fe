// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Refused requests: which NAK, which status at the requester, which event at the responder, and that nothing
// was touched.
#include <gtest/gtest.h>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

constexpr uint32_t kQpFatal = 1, kQpRequestError = 2, kQpAccessError = 3, kLastWqe = 16;

bool has_event(const std::vector<Event>& events, uint32_t number) {
  for (const Event& e : events) {
    if (e.kind == Event::Kind::async_qp && e.async == number) return true;
  }
  return false;
}

struct Refusal : ::testing::Test {
  Refusal() : local(world.a.region(4096)), remote(world.b.region(4096)) {
    world.a.memory.fill(local.va, 4096, 1);
  }
  void connect(const QpOptions& of_a = {}, const QpOptions& of_b = {}) {
    pair = world.connect(of_a, of_b);
    world.a.events();
    world.b.events();
  }
  void post(WrOpcode opcode, uint64_t va, uint32_t rkey, uint32_t bytes = 64) {
    const SgEntry sge = local.sge(0, bytes);
    ASSERT_EQ(world.a.post(pair.a, request(opcode, 1, {&sge, 1}, va, rkey)), 0);
  }
  // The request ends with `status`, both ends are in ERR, the responder raised `event`, its memory is as it
  // was.
  void expect(WcStatus status, uint32_t event) {
    const Completion done = world.completions(world.a, 1)[0];
    EXPECT_EQ(done.status, status);
    EXPECT_EQ(done.wr_id, 1u);
    EXPECT_EQ(done.qp_num, pair.a->qpn().value());
    EXPECT_NE(done.vendor_error, 0u);
    EXPECT_EQ(pair.a->state(), QpState::error);
    EXPECT_EQ(pair.b->state(), QpState::error);
    EXPECT_TRUE(has_event(world.b.events(), event));
    EXPECT_FALSE(has_event(world.a.events(), kQpFatal));
    EXPECT_TRUE(world.b.memory.is_zero(remote.va, 4096));
    EXPECT_EQ(world.b.drops(engine::PacketDrop::bad_request), 1u);
  }
  World world;
  Region local;
  Region remote;
  Pair pair;
};

using Nak = Refusal;

TEST_F(Nak, wrong_rkey_is_a_remote_access_error) {
  for (const WrOpcode opcode : {WrOpcode::write, WrOpcode::read, WrOpcode::fetch_add}) {
    World fresh;
    const Region from = fresh.a.region(64);
    const Pair p = fresh.connect();
    const SgEntry sge = from.sge(0, 8);
    ASSERT_EQ(fresh.a.post(p.a, request(opcode, 1, {&sge, 1}, 0x1000, 0xbad00)), 0);
    EXPECT_EQ(fresh.completions(fresh.a, 1)[0].status, WcStatus::remote_access_error);
    EXPECT_TRUE(has_event(fresh.b.events(), kQpAccessError));
    EXPECT_EQ(p.b->state(), QpState::error);
  }
}

TEST_F(Nak, one_byte_beyond_the_region) {
  connect();
  post(WrOpcode::write, remote.va + 4096 - 63, remote.key);
  expect(WcStatus::remote_access_error, kQpAccessError);
}

TEST_F(Nak, one_byte_before_the_region) {
  connect();
  post(WrOpcode::write, remote.va - 1, remote.key);
  expect(WcStatus::remote_access_error, kQpAccessError);
}

TEST_F(Nak, an_address_that_wraps_around) {
  connect();
  post(WrOpcode::write, ~uint64_t{0} - 10, remote.key);
  expect(WcStatus::remote_access_error, kQpAccessError);
}

TEST_F(Nak, a_region_of_another_domain) {
  const Region foreign = world.b.region(64, kAllAccess, kPd + 1);
  connect();
  post(WrOpcode::write, foreign.va, foreign.key);
  expect(WcStatus::remote_access_error, kQpAccessError);
  EXPECT_TRUE(world.b.memory.is_zero(foreign.va, 64));
}

TEST_F(Nak, a_region_without_the_right) {
  const uint32_t rights[] = {Access::local_write | Access::remote_read,
                             Access::local_write | Access::remote_write,
                             Access::local_write | Access::remote_write | Access::remote_read};
  const WrOpcode opcodes[] = {WrOpcode::write, WrOpcode::read, WrOpcode::fetch_add};
  for (int i = 0; i < 3; ++i) {
    World fresh;
    const Region from = fresh.a.region(64);
    const Region to = fresh.b.region(64, rights[i]);
    const Pair p = fresh.connect();
    const SgEntry sge = from.sge(0, 8);
    ASSERT_EQ(fresh.a.post(p.a, request(opcodes[i], 1, {&sge, 1}, to.va, to.key)), 0);
    EXPECT_EQ(fresh.completions(fresh.a, 1)[0].status, WcStatus::remote_access_error);
    EXPECT_TRUE(has_event(fresh.b.events(), kQpAccessError));
  }
}

TEST_F(Nak, a_queue_pair_without_the_right_makes_the_request_invalid) {
  const uint32_t missing[] = {Access::remote_write, Access::remote_read, Access::remote_atomic};
  const WrOpcode opcodes[] = {WrOpcode::write, WrOpcode::read, WrOpcode::fetch_add};
  for (int i = 0; i < 3; ++i) {
    World fresh;
    const Region from = fresh.a.region(64);
    const Region to = fresh.b.region(64);
    QpOptions weak;
    weak.access = kAllAccess & ~missing[i];
    const Pair p = fresh.connect({}, weak);
    const SgEntry sge = from.sge(0, 8);
    ASSERT_EQ(fresh.a.post(p.a, request(opcodes[i], 1, {&sge, 1}, to.va, to.key)), 0);
    EXPECT_EQ(fresh.completions(fresh.a, 1)[0].status, WcStatus::remote_invalid_request);
    EXPECT_TRUE(has_event(fresh.b.events(), kQpRequestError));
    EXPECT_TRUE(fresh.b.memory.is_zero(to.va, 64));
  }
}

TEST_F(Nak, misaligned_atomic_is_invalid) {
  connect();
  post(WrOpcode::fetch_add, remote.va + 4, remote.key, 8);
  expect(WcStatus::remote_invalid_request, kQpRequestError);
}

TEST_F(Nak, memory_that_was_unmapped_is_an_access_error_and_no_crash) {
  const Region gone = world.b.region(64);
  world.b.memory.unmap(gone.va);
  connect();
  post(WrOpcode::write, gone.va, gone.key);
  expect(WcStatus::remote_access_error, kQpAccessError);
  EXPECT_EQ(world.b.engine.counters().memory_faults, 1u);
}

TEST_F(Nak, memory_that_goes_away_under_an_accepted_read) {
  QpOptions options;
  options.mtu = PathMtu::mtu_256;
  connect(options, options);
  const Region big = world.b.region(65536);
  const Region into = world.a.region(65536);
  const SgEntry sge = into.sge();
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, 1, {&sge, 1}, big.va, big.key)), 0);
  for (const Frame& frame : world.outgoing(world.a)) world.deliver(world.b, frame);
  ASSERT_EQ(world.b.engine.deregister_mr(big.key), 0);
  expect(WcStatus::remote_access_error, kQpAccessError);
}

TEST_F(Nak, a_deregistered_region_is_not_touched_by_the_rest_of_a_message) {
  QpOptions options;
  options.mtu = PathMtu::mtu_256;
  connect(options, options);
  const Region big = world.b.region(4096);
  const SgEntry sge = local.sge(0, 4096);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, big.va, big.key)), 0);
  const auto frames = world.outgoing(world.a);
  ASSERT_GT(frames.size(), 4u);
  for (size_t i = 0; i < 3; ++i) world.deliver(world.b, frames[i]);
  ASSERT_EQ(world.b.engine.deregister_mr(big.key), 0);
  for (size_t i = 3; i < frames.size(); ++i) world.deliver(world.b, frames[i]);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_access_error);
  EXPECT_TRUE(world.b.memory.is_zero(big.va + 3 * 256, 4096 - 3 * 256));
}

TEST_F(Nak, a_receive_that_is_too_small) {
  connect();
  ASSERT_EQ(world.b.receive(pair.b, 9, {remote.sge(0, 63)}), 0);
  ASSERT_EQ(world.b.receive(pair.b, 10, {remote.sge(64, 64)}), 0);
  post(WrOpcode::send, 0, 0);
  const Completion sent = world.completions(world.a, 1)[0];
  EXPECT_EQ(sent.status, WcStatus::remote_invalid_request);
  const auto received = world.b.poll();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].status, WcStatus::local_length_error);
  EXPECT_EQ(received[0].wr_id, 9u);
  EXPECT_EQ(received[0].qp_num, pair.b->qpn().value());
  EXPECT_EQ(received[1].status, WcStatus::flush_error);
  EXPECT_EQ(pair.b->state(), QpState::error);
  EXPECT_TRUE(world.b.memory.is_zero(remote.va, 4096));
}

TEST_F(Nak, a_receive_whose_key_is_bad_is_an_operation_error_for_the_sender) {
  connect();
  ASSERT_EQ(world.b.receive(pair.b, 9, {SgEntry{remote.va, 64, 0xbad00}}), 0);
  post(WrOpcode::send, 0, 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_operation_error);
  EXPECT_EQ(world.b.poll().at(0).status, WcStatus::local_protection_error);
}

TEST_F(Nak, a_send_whose_key_is_bad_fails_here_and_reaches_no_wire) {
  connect();
  world.tracing = true;
  const SgEntry bad{local.va, 64, 0xbad00};
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&bad, 1}, remote.va, remote.key)), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 2, {}, remote.va, remote.key)), 0);
  const auto done = world.completions(world.a, 2);
  EXPECT_EQ(done[0].status, WcStatus::local_protection_error);
  EXPECT_EQ(done[1].status, WcStatus::flush_error);
  EXPECT_TRUE(world.trace.empty());
  EXPECT_EQ(pair.a->state(), QpState::error);
}

TEST_F(Nak, requests_before_a_local_error_complete_first) {
  connect();
  const SgEntry good = local.sge(0, 3000);
  const SgEntry bad{local.va, 64, 0xbad00};
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&good, 1}, remote.va, remote.key)), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 2, {&bad, 1}, remote.va, remote.key)), 0);
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::write, 3, {&good, 1}, remote.va, remote.key)), 0);
  const auto done = world.completions(world.a, 3);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::local_protection_error);
  EXPECT_EQ(done[2].status, WcStatus::flush_error);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(done[i].wr_id, i + 1);
}

TEST_F(Nak, a_lost_nak_is_said_again) {
  connect();
  int answers = 0;
  world.wire = [&answers](Frame& frame) { return frame.from != 2 || answers++ >= 2; };
  post(WrOpcode::write, remote.va, 0xbad00);
  expect(WcStatus::remote_access_error, kQpAccessError);
}

TEST_F(Nak, a_read_target_that_is_bad_is_a_local_protection_error) {
  connect();
  const SgEntry bad{local.va, 64, 0xbad00};
  ASSERT_EQ(world.a.post(pair.a, request(WrOpcode::read, 1, {&bad, 1}, remote.va, remote.key)), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::local_protection_error);
}

TEST_F(Nak, an_srq_queue_pair_that_fails_says_it_was_its_last_receive) {
  QpOptions of_b;
  of_b.srq = world.b.new_srq(4);
  connect({}, of_b);
  post(WrOpcode::write, remote.va, 0xbad00);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_access_error);
  const auto events = world.b.events();
  EXPECT_TRUE(has_event(events, kQpAccessError));
  EXPECT_TRUE(has_event(events, kLastWqe));
}

// ---- an injector instead of a requester ----------------------------------------------------------

struct Injected : Refusal {
  Injected() { connect(); }
  wire::Packet packet(Opcode opcode, Psn psn) {
    wire::Packet p;
    p.bth.opcode = opcode;
    p.bth.dest_qpn = pair.b->qpn();
    p.bth.psn = psn;
    p.reth = {remote.va, remote.key, 4096};
    return p;
  }
  // What B answers now.
  std::vector<wire::Packet> answers() {
    std::vector<wire::Packet> all;
    for (const Frame& frame : world.outgoing(world.b)) all.push_back(frame.parse());
    return all;
  }
  void expect_nak(wire::NakCode code) {
    const auto said = answers();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].aeth.kind, wire::AethKind::nak);
    EXPECT_EQ(said[0].aeth.value, static_cast<uint8_t>(code));
  }
  const Psn first{0xfffffa};
};

TEST_F(Injected, middle_without_first_is_invalid) {
  world.inject(world.b, packet(Opcode::rc_send_middle, first), 1024);
  expect_nak(wire::NakCode::invalid_request);
  EXPECT_EQ(pair.b->state(), QpState::error);
  EXPECT_TRUE(has_event(world.b.events(), kQpRequestError));
}

TEST_F(Injected, second_first_inside_a_message_is_invalid) {
  world.inject(world.b, packet(Opcode::rc_write_first, first), 1024);
  world.inject(world.b, packet(Opcode::rc_write_first, first + 1), 1024);
  expect_nak(wire::NakCode::invalid_request);
}

TEST_F(Injected, send_inside_a_write_is_invalid) {
  ASSERT_EQ(world.b.receive(pair.b, 1), 0);
  world.inject(world.b, packet(Opcode::rc_write_first, first), 1024);
  world.inject(world.b, packet(Opcode::rc_send_only, first + 1));
  expect_nak(wire::NakCode::invalid_request);
}

TEST_F(Injected, first_that_is_not_a_whole_mtu_is_invalid) {
  world.inject(world.b, packet(Opcode::rc_write_first, first), 1020);
  expect_nak(wire::NakCode::invalid_request);
}

TEST_F(Injected, empty_last_is_invalid) {
  wire::Packet p = packet(Opcode::rc_write_first, first);
  p.reth.length = 1024;
  world.inject(world.b, p, 1024);
  world.inject(world.b, packet(Opcode::rc_write_last, first + 1), 0);
  expect_nak(wire::NakCode::invalid_request);
}

TEST_F(Injected, more_or_less_than_was_announced_is_invalid) {
  for (const uint32_t announced : {1000u, 1028u}) {
    World fresh;
    const Pair p = fresh.connect();
    const Region to = fresh.b.region(4096);
    wire::Packet only;
    only.bth.opcode = Opcode::rc_write_only;
    only.bth.dest_qpn = p.b->qpn();
    only.bth.psn = first;
    only.reth = {to.va, to.key, announced};
    fresh.inject(fresh.b, only, 1024);
    const auto frames = fresh.outgoing(fresh.b);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].parse().aeth.value, static_cast<uint8_t>(wire::NakCode::invalid_request));
    EXPECT_TRUE(fresh.b.memory.is_zero(to.va, 4096));
  }
}

TEST_F(Injected, acknowledgement_of_a_repeated_write_never_names_the_read_behind_it) {
  wire::Packet write = packet(Opcode::rc_write_only, first);
  write.reth.length = 4;
  wire::Packet read = packet(Opcode::rc_read_request, first + 1);
  read.reth.length = 4;
  world.inject(world.b, write, 4);
  world.inject(world.b, read);
  answers();
  world.inject(world.b, write, 4);
  const auto said = answers();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].bth.opcode, Opcode::rc_acknowledge);
  EXPECT_EQ(said[0].bth.psn, first);
}

TEST_F(Injected, repeated_read_inside_a_write_leaves_the_write_alone) {
  wire::Packet read = packet(Opcode::rc_read_request, first);
  read.reth.length = 8;
  world.inject(world.b, read);
  answers();
  world.inject(world.b, packet(Opcode::rc_write_first, first + 1), 1024);
  world.inject(world.b, read);
  EXPECT_EQ(answers().at(0).bth.opcode, Opcode::rc_read_response_only);
  world.inject(world.b, packet(Opcode::rc_write_middle, first + 2), 1024);
  world.inject(world.b, packet(Opcode::rc_write_middle, first + 3), 1024);
  wire::Packet last = packet(Opcode::rc_write_last, first + 4);
  last.bth.ack_request = true;
  world.inject(world.b, last, 1024);
  const auto said = answers();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].aeth.kind, wire::AethKind::ack);
  EXPECT_EQ(said[0].bth.psn, first + 4);
  EXPECT_EQ(said[0].aeth.msn, 2u);
}

TEST_F(Injected, one_nak_for_one_gap) {
  wire::Packet write = packet(Opcode::rc_write_only, first + 2);
  write.reth.length = 4;
  world.inject(world.b, write, 4);
  write.bth.psn = first + 3;
  world.inject(world.b, write, 4);
  const auto said = answers();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].aeth.kind, wire::AethKind::nak);
  EXPECT_EQ(said[0].aeth.value, static_cast<uint8_t>(wire::NakCode::sequence_error));
  EXPECT_EQ(said[0].bth.psn, first);
  EXPECT_EQ(world.b.drops(engine::PacketDrop::out_of_sequence), 2u);
  EXPECT_TRUE(world.b.memory.is_zero(remote.va, 8));
}

TEST_F(Injected, packets_that_are_not_for_this_queue_pair_are_dropped_and_counted) {
  const auto drops = [this](engine::PacketDrop reason) { return world.b.drops(reason); };
  wire::Packet write = packet(Opcode::rc_write_only, first);
  write.reth.length = 4;
  wire::Packet p = write;
  p.bth.dest_qpn = Qpn::of(2, 5000);
  world.inject(world.b, p, 4);
  EXPECT_EQ(drops(engine::PacketDrop::unknown_qp), 1u);
  p = write;
  p.bth.opcode = Opcode::uc_write_only;
  world.inject(world.b, p, 4);
  EXPECT_EQ(drops(engine::PacketDrop::wrong_service), 1u);
  p = write;
  p.bth.pkey = 0x1234;
  world.inject(world.b, p, 4);
  EXPECT_EQ(drops(engine::PacketDrop::bad_pkey), 1u);
  Frame stranger;
  stranger.from = 9;
  stranger.bytes.resize(32);
  p = write;
  wire::write_headers(p, stranger.bytes.data());
  engine::RxMeta meta;
  meta.source = world.b.gid;  // not the peer
  meta.destination = world.b.gid;
  world.b.engine.on_packet(world.now(), stranger.bytes, meta);
  EXPECT_EQ(drops(engine::PacketDrop::wrong_source), 1u);
  world.b.engine.on_packet(world.now(), std::span(stranger.bytes).first(11), meta);
  EXPECT_EQ(drops(engine::PacketDrop::parse_error), 1u);
  QpOptions options;
  QueuePair* fresh = world.b.new_qp(options);
  p = write;
  p.bth.dest_qpn = fresh->qpn();
  world.inject(world.b, p, 4);
  EXPECT_EQ(drops(engine::PacketDrop::wrong_state), 1u);
  EXPECT_TRUE(answers().empty());
  EXPECT_TRUE(world.b.memory.is_zero(remote.va, 8));
  EXPECT_EQ(pair.b->state(), QpState::rts);
}

TEST_F(Injected, communication_established_is_said_once_in_rtr) {
  QpOptions options;
  QueuePair* qp = world.b.new_qp(options);
  world.b.to_init(qp, options);
  world.b.to_rtr(qp, options, PathId{1}, pair.a->qpn(), first, world.a.gid);
  wire::Packet write = packet(Opcode::rc_write_only, first);
  write.bth.dest_qpn = qp->qpn();
  write.reth.length = 0;
  world.inject(world.b, write);
  write.bth.psn = first + 1;
  world.inject(world.b, write);
  const auto events = world.b.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].async, 4u);
  EXPECT_EQ(events[0].id, qp->qpn().value());
}

}  // namespace
}  // namespace uroce::test
