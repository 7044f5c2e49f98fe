// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "tests/uroced/cm/ib_cm_world.h"

namespace uroce::cm {
namespace {

using test::is;
using test::World;
using wire::CmRejectReason;

TEST(IbCmActive, connects_with_three_messages) {
  World w;
  wire::CmReq req = w.request(w.a, w.b);
  const std::array<uint8_t, 3> hello = {1, 2, 3};
  req.private_data.put(hello);
  const Endpoint active = w.a.cm.connect(w.now, w.a.to(w.b), req);
  EXPECT_EQ(w.a.cm.state(active), State::req_sent);
  w.deliver();
  const Event request = w.b.expect(Event::Kind::request);
  EXPECT_EQ(request.route, w.b.to(w.a));
  EXPECT_EQ(std::get<wire::CmReq>(request.message).local_id, active);
  EXPECT_EQ(std::get<wire::CmReq>(request.message).private_data, req.private_data);
  EXPECT_EQ(std::get<wire::CmReq>(request.message).primary.local_gid, w.a.gid);
  EXPECT_EQ(std::get<wire::CmReq>(request.message).primary.remote_gid, w.b.gid);
  EXPECT_EQ(w.b.cm.state(request.endpoint), State::req_received);
  EXPECT_EQ(w.b.cm.accept(w.now, request.endpoint, w.reply(w.b)), 0);
  EXPECT_EQ(w.b.cm.state(request.endpoint), State::rep_sent);
  w.deliver();
  const Event reply = w.a.expect(Event::Kind::reply);
  EXPECT_EQ(std::get<wire::CmRep>(reply.message).remote_id, active);
  EXPECT_EQ(w.a.cm.state(active), State::rep_received);
  EXPECT_EQ(w.a.cm.confirm(w.now, active, hello), 0);
  w.deliver();
  const Event established = w.b.expect(Event::Kind::established);
  EXPECT_EQ(std::get<wire::CmRtu>(established.message).private_data.bytes[2], 3);
  EXPECT_EQ(w.a.cm.state(active), State::established);
  EXPECT_EQ(w.b.cm.state(request.endpoint), State::established);
  EXPECT_EQ(w.take_log(), "REQ REP RTU");
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
  EXPECT_FALSE(w.b.cm.next_deadline().has_value());
}

TEST(IbCmActive, a_lost_request_is_repeated_early) {
  World w;
  int lost = 0;
  w.lose = [&](const wire::CmMessage& m) { return is<wire::CmReq>(m) && lost++ < 2; };
  w.a.cm.connect(w.now, w.a.to(w.b), w.request(w.a, w.b));
  w.advance_ms(249);
  EXPECT_EQ(w.take_log(), "[REQ]");
  w.advance_ms(1);
  EXPECT_EQ(w.take_log(), "[REQ]");
  w.advance_ms(500);
  EXPECT_EQ(w.take_log(), "REQ");
  w.b.expect(Event::Kind::request);
}

// 3 retries: four full waits of 4.3 + 1.07 s, however many repetitions come before.
TEST(IbCmActive, gives_up_after_the_promised_waits) {
  World w;
  w.lose = [](const wire::CmMessage&) { return true; };
  const Endpoint active = w.a.cm.connect(w.now, w.a.to(w.b), w.request(w.a, w.b));
  const int64_t full = (int64_t{4096} << 20) + (int64_t{4096} << 18);
  w.advance(4 * full - 1);
  EXPECT_TRUE(w.a.quiet());
  EXPECT_EQ(w.take_log(), "[REQ] [REQ] [REQ] [REQ] [REQ] [REQ] [REQ] [REQ]");  // 1 + 4 early + 3
  w.advance(1);
  w.a.expect(Event::Kind::unreachable);
  EXPECT_EQ(w.a.cm.state(active), State::idle);
  EXPECT_EQ(w.take_log(), "[REJ]");  // in case that only the answers were lost
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
  w.a.cm.release(w.now, active);
  EXPECT_EQ(w.a.cm.live(), 0u);
}

TEST(IbCmActive, a_repeated_request_is_answered_with_mra_and_waits) {
  World w;
  const World::Ends ends = w.requested();
  w.advance_ms(250);
  EXPECT_EQ(w.take_log(), "REQ MRA");
  EXPECT_EQ(w.a.cm.state(ends.active), State::mra_received);
  w.advance_ms(60'000);  // the service timeout of the MRA is 69 s
  EXPECT_EQ(w.take_log(), "");
  EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
}

TEST(IbCmActive, mra_cannot_hold_it_for_ever) {
  World w;
  const World::Ends ends = w.requested();
  int mras = 0;
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmReq>(m) || is<wire::CmRej>(m); };
  for (int second = 0; second < 3600 && w.a.quiet(); ++second) {
    wire::CmMra mra;
    mra.remote_id = ends.active;
    mra.service_timeout = 31;
    w.inject(w.a, w.b, mra);
    ++mras;
    w.advance_ms(1000);
  }
  w.a.expect(Event::Kind::unreachable);
  EXPECT_LT(mras, 4 * 80);  // each of four waits at most 69 s and some
}

TEST(IbCmActive, a_repeated_reply_is_answered_by_its_state) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
  w.take_log();
  w.advance_ms(250);
  EXPECT_EQ(w.take_log(), "REP MRA");
  w.advance_ms(60'000);
  EXPECT_EQ(w.take_log(), "");  // b waits, too
  int rtus = 0;
  w.lose = [&](const wire::CmMessage& m) { return is<wire::CmRtu>(m) && rtus++ == 0; };
  ASSERT_EQ(w.a.cm.confirm(w.now, ends.active, {}), 0);
  w.advance_ms(20'000);
  EXPECT_EQ(w.take_log(), "[RTU] REP RTU");
  w.b.expect(Event::Kind::established);
  EXPECT_TRUE(w.a.quiet());
}

TEST(IbCmActive, a_reply_that_nobody_waits_for_is_rejected) {
  World w;
  const World::Ends ends = w.requested();
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmRej>(m); };
  w.a.cm.release(w.now, ends.active);
  w.deliver();
  EXPECT_EQ(w.take_log(), "[REJ]");
  EXPECT_EQ(w.a.cm.live(), 0u);
  w.lose = [](const wire::CmMessage&) { return false; };
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  EXPECT_EQ(w.take_log(), "REP REJ");
  const Event event = w.b.expect(Event::Kind::rejected);
  EXPECT_EQ(std::get<wire::CmRej>(event.message).reason, CmRejectReason::invalid_comm_id);
  EXPECT_EQ(w.b.cm.state(ends.passive), State::idle);
}

TEST(IbCmActive, a_reply_from_another_address_is_not_heard) {
  World w;
  const World::Ends ends = w.requested();
  test::Host other(3, {});
  wire::CmRep rep = w.reply(other);
  rep.local_id = 5;
  rep.remote_id = ends.active;
  wire::Mad mad;
  wire::write_cm(rep, 1, mad);
  w.a.cm.on_mad(w.now, w.a.to(other), mad);
  EXPECT_FALSE(w.a.cm.poll_transmit().has_value());
  EXPECT_EQ(w.a.cm.state(ends.active), State::req_sent);
  EXPECT_EQ(w.a.cm.counters().unexpected, 1u);
}

// The id that a peer gives its end of our connection, and the id of its own REQ, are its own business.
TEST(IbCmActive, a_peer_may_use_one_id_twice) {
  World w;
  const World::Ends ends = w.requested();
  wire::CmReq req = w.request(w.b, w.a, 0x444);
  req.local_id = 5;
  req.primary.local_gid = w.b.gid;
  w.inject(w.a, w.b, req);
  w.a.expect(Event::Kind::request);
  wire::CmRep rep = w.reply(w.b);
  rep.local_id = 5;
  rep.remote_id = ends.active;
  w.inject(w.a, w.b, rep);
  w.a.expect(Event::Kind::reply);
  w.a.cm.drop(ends.active);
  w.take_log();
  w.inject(w.a, w.b, req);
  EXPECT_EQ(w.take_log(), "MRA");  // still a repetition
}

TEST(IbCmActive, xrc_carries_the_qp_as_eecn) {
  World w;
  wire::CmReq req = w.request(w.a, w.b);
  req.transport = wire::CmTransport::extended;
  req.extended_transport = 1;
  const Endpoint active = w.a.cm.connect(w.now, w.a.to(w.b), req);
  w.deliver();
  const Endpoint passive = w.b.expect(Event::Kind::request).endpoint;
  w.lose = [](const wire::CmMessage& m) {
    if (!is<wire::CmRep>(m)) return false;
    EXPECT_EQ(std::get<wire::CmRep>(m).local_qpn, 0u);  // on the wire, as Linux has it
    EXPECT_EQ(std::get<wire::CmRep>(m).local_eecn, 0x333u);
    EXPECT_TRUE(std::get<wire::CmRep>(m).srq);
    return false;
  };
  ASSERT_EQ(w.b.cm.accept(w.now, passive, w.reply(w.b, 0x333)), 0);
  w.deliver();
  EXPECT_EQ(std::get<wire::CmRep>(w.a.expect(Event::Kind::reply).message).local_qpn, 0x333u);
  ASSERT_EQ(w.a.cm.confirm(w.now, active, {}), 0);
  w.deliver();
  uint32_t qpn = 0;
  w.lose = [&](const wire::CmMessage& m) {
    if (is<wire::CmDreq>(m)) qpn = std::get<wire::CmDreq>(m).remote_qpn;
    return false;
  };
  ASSERT_EQ(w.a.cm.disconnect(w.now, active, {}), 0);
  w.deliver();
  EXPECT_EQ(qpn, 0x333u);
  EXPECT_EQ(w.b.cm.state(passive), State::timewait);
}

// With a walk over all endpoints in any step this would not come to an end.
TEST(IbCmActive, a_full_table_works_as_an_empty_one) {
  World w;
  const size_t full = IbCm::Limits{}.endpoints;
  w.lose = [](const wire::CmMessage&) { return true; };
  wire::CmReq req = w.request(w.a, w.b);
  req.remote_response_timeout = req.primary.local_ack_timeout = 0;
  req.max_cm_retries = 1;
  for (size_t i = 0; i < full; ++i) {
    req.local_qpn = static_cast<uint32_t>(i);
    ASSERT_NE(w.a.cm.connect(w.now, w.a.to(w.b), req), 0u);
    w.now = w.now + 1;
  }
  EXPECT_EQ(w.a.cm.connect(w.now, w.a.to(w.b), req), 0u);
  w.advance_ms(50);
  EXPECT_EQ(w.a.events.size(), full);
  for (const Event& event : w.a.events) {
    ASSERT_EQ(event.kind, Event::Kind::unreachable);
    w.a.cm.release(w.now, event.endpoint);
  }
  EXPECT_EQ(w.a.cm.live(), 0u);
}

TEST(IbCmActive, calls_in_the_wrong_state_are_refused) {
  World w;
  const World::Ends ends = w.requested();
  EXPECT_EQ(w.a.cm.confirm(w.now, ends.active, {}), EINVAL);
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), EINVAL);
  EXPECT_EQ(w.a.cm.accept(w.now, ends.active, {}), EINVAL);
  EXPECT_EQ(w.a.cm.establish(w.now, ends.active), EINVAL);
  EXPECT_EQ(w.a.cm.confirm(w.now, ends.active + 1, {}), ENOENT);
  EXPECT_EQ(w.a.cm.answer_sidr(w.now, ends.active, {}), EINVAL);
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  const std::array<uint8_t, 225> too_long{};
  EXPECT_EQ(w.a.cm.confirm(w.now, ends.active, too_long), EINVAL);
  EXPECT_EQ(w.a.cm.state(ends.active), State::rep_received);
  EXPECT_EQ(w.a.cm.confirm(w.now, ends.active, std::span(too_long).first(224)), 0);
}

TEST(IbCmActive, ids_and_messages_depend_on_the_seed_alone) {
  World w1, w2;
  const World::Ends first = w1.requested(), same = w2.requested();
  EXPECT_EQ(first.active, same.active);
  EXPECT_NE(first.active, first.passive);  // seeds differ
  EXPECT_NE(w1.requested(0x112).active, first.active);
}

}  // namespace
}  // namespace uroce::cm
