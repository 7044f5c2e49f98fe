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

TEST(IbCmReject, a_request_with_reason_and_data) {
  World w;
  const World::Ends ends = w.requested();
  const std::array<uint8_t, 148> data = {9, 8, 7};
  const std::array<uint8_t, 73> info = {5};
  EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, CmRejectReason::invalid_mtu, info, {}), EINVAL);
  EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, CmRejectReason::invalid_mtu, std::span(info).first(72), data),
            0);
  EXPECT_EQ(w.b.cm.state(ends.passive), State::idle);
  w.deliver();
  const Event event = w.a.expect(Event::Kind::rejected);
  const auto& rej = std::get<wire::CmRej>(event.message);
  EXPECT_EQ(rej.reason, CmRejectReason::invalid_mtu);
  EXPECT_EQ(rej.of, wire::CmMessageKind::req);
  EXPECT_EQ(rej.info_length, 72);
  EXPECT_EQ(rej.info[0], 5);
  EXPECT_EQ(rej.private_data.bytes[2], 7);
  EXPECT_EQ(w.a.cm.state(ends.active), State::idle);
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
  EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, CmRejectReason::invalid_mtu, {}, {}), EINVAL);
}

TEST(IbCmReject, a_lost_reject_is_repeated_when_the_request_is) {
  World w;
  const World::Ends ends = w.requested();
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmRej>(m); };
  ASSERT_EQ(w.b.cm.reject(w.now, ends.passive, CmRejectReason::consumer_defined, {}, {}), 0);
  w.deliver();
  w.lose = [](const wire::CmMessage&) { return false; };
  w.advance_ms(250);
  EXPECT_EQ(w.take_log(), "[REJ] REQ REJ");
  w.a.expect(Event::Kind::rejected);
  EXPECT_TRUE(w.b.quiet());
}

TEST(IbCmReject, a_reply) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
  EXPECT_EQ(w.a.cm.reject(w.now, ends.active, CmRejectReason::consumer_defined, {}, {}), 0);
  w.deliver();
  const Event event = w.b.expect(Event::Kind::rejected);
  EXPECT_EQ(std::get<wire::CmRej>(event.message).of, wire::CmMessageKind::rep);
  EXPECT_EQ(w.b.cm.state(ends.passive), State::idle);
}

// A reply that is taken back after the peer has believed it ends the connection there.
TEST(IbCmReject, an_established_connection_is_disconnected) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmRtu>(m); };
  ASSERT_EQ(w.a.cm.confirm(w.now, ends.active, {}), 0);
  w.deliver();
  ASSERT_EQ(w.b.cm.reject(w.now, ends.passive, CmRejectReason::consumer_defined, {}, {}), 0);
  w.deliver();
  const Event event = w.a.expect(Event::Kind::disconnected);
  EXPECT_TRUE(is<wire::CmRej>(event.message));
  w.advance_ms(4000);
  w.a.expect(Event::Kind::timewait_exit);
}

TEST(IbCmReject, an_rtu_on_the_way_is_answered_with_the_reject) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmRej>(m); };
  ASSERT_EQ(w.b.cm.reject(w.now, ends.passive, CmRejectReason::no_resources, {}, {}), 0);
  w.deliver();
  w.lose = [](const wire::CmMessage&) { return false; };
  ASSERT_EQ(w.a.cm.confirm(w.now, ends.active, {}), 0);
  w.deliver();
  const Event event = w.a.expect(Event::Kind::disconnected);
  EXPECT_EQ(std::get<wire::CmRej>(event.message).reason, CmRejectReason::no_resources);
}

TEST(IbCmReject, a_request_given_up_is_found_without_an_id_of_ours) {
  World w;
  const World::Ends ends = w.requested();
  w.a.cm.release(w.now, ends.active);
  EXPECT_EQ(w.a.cm.live(), 0u);
  w.deliver();
  const auto rej = std::get<wire::CmRej>(w.b.expect(Event::Kind::rejected).message);
  EXPECT_EQ(rej.reason, CmRejectReason::timeout);
  EXPECT_EQ(rej.remote_id, 0u);
  EXPECT_EQ(rej.info_length, 8);
  EXPECT_EQ(rej.info[7], w.a.guid);
}

TEST(IbCmReject, the_reject_of_a_request_does_not_end_what_came_after_it) {
  World w;
  const World::Ends ends = w.established();
  wire::CmRej rej;
  rej.remote_id = ends.active;
  rej.reason = CmRejectReason::stale_connection;
  w.inject(w.a, w.b, rej);
  EXPECT_EQ(w.a.cm.state(ends.active), State::established);
  EXPECT_EQ(w.a.cm.counters().unexpected, 1u);
}

TEST(IbCmDisconnect, both_ends_hear_of_it_and_leave_timewait) {
  World w;
  const World::Ends ends = w.established();
  const std::array<uint8_t, 220> bye = {1};
  const std::array<uint8_t, 221> too_long = {};
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, too_long), EINVAL);
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, bye), 0);
  EXPECT_EQ(w.a.cm.state(ends.active), State::dreq_sent);
  w.deliver();
  EXPECT_EQ(w.take_log(), "DREQ DREP");
  const Event there = w.b.expect(Event::Kind::disconnected);
  EXPECT_EQ(std::get<wire::CmDreq>(there.message).private_data.bytes[0], 1);
  EXPECT_EQ(std::get<wire::CmDreq>(there.message).remote_qpn, 0x222u);
  EXPECT_FALSE(there.timed_out);
  EXPECT_TRUE(is<wire::CmDrep>(w.a.expect(Event::Kind::disconnected).message));
  EXPECT_EQ(w.a.cm.state(ends.active), State::timewait);
  EXPECT_EQ(w.b.cm.state(ends.passive), State::timewait);
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), EINVAL);
  // The local ack timeout of the REQ: 1.07 s.
  w.advance_ms(1000);
  EXPECT_TRUE(w.a.quiet() && w.b.quiet());
  w.advance_ms(100);
  w.a.expect(Event::Kind::timewait_exit);
  w.b.expect(Event::Kind::timewait_exit);
  EXPECT_EQ(w.a.cm.state(ends.active), State::idle);
  w.a.cm.release(w.now, ends.active);
  w.b.cm.release(w.now, ends.passive);
  EXPECT_EQ(w.a.cm.live() + w.b.cm.live(), 0u);
}

TEST(IbCmDisconnect, at_once_from_both_sides) {
  World w;
  const World::Ends ends = w.established();
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  EXPECT_EQ(w.b.cm.disconnect(w.now, ends.passive, {}), 0);
  w.deliver();
  EXPECT_TRUE(is<wire::CmDreq>(w.a.expect(Event::Kind::disconnected).message));
  EXPECT_TRUE(is<wire::CmDreq>(w.b.expect(Event::Kind::disconnected).message));
  w.advance_ms(5000);
  w.a.expect(Event::Kind::timewait_exit);
  w.b.expect(Event::Kind::timewait_exit);
  EXPECT_TRUE(w.a.quiet() && w.b.quiet());
  EXPECT_EQ(w.take_log(), "DREQ DREQ DREP DREP");
}

TEST(IbCmDisconnect, a_lost_answer_is_given_again_in_timewait) {
  World w;
  const World::Ends ends = w.established();
  int lost = 0;
  w.lose = [&](const wire::CmMessage& m) { return is<wire::CmDrep>(m) && lost++ == 0; };
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  w.advance_ms(250);
  EXPECT_EQ(w.take_log(), "DREQ [DREP] DREQ DREP");
  w.a.expect(Event::Kind::disconnected);
  w.b.expect(Event::Kind::disconnected);
  EXPECT_TRUE(w.b.quiet());
}

TEST(IbCmDisconnect, is_answered_for_a_connection_that_is_not_known) {
  World w;
  const World::Ends ends = w.established();
  w.b.cm.drop(ends.passive);
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  w.deliver();
  EXPECT_EQ(w.take_log(), "DREQ DREP");
  w.a.expect(Event::Kind::disconnected);
}

TEST(IbCmDisconnect, unanswered_it_ends_after_the_promised_waits) {
  World w;
  const World::Ends ends = w.established();
  w.lose = [](const wire::CmMessage&) { return true; };
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  const int64_t full = (int64_t{4096} << 20) + (int64_t{4096} << 18);
  w.advance(4 * full - 1);
  EXPECT_TRUE(w.a.quiet());
  w.advance(1);
  EXPECT_TRUE(w.a.expect(Event::Kind::disconnected).timed_out);
  EXPECT_EQ(w.a.cm.state(ends.active), State::timewait);
}

TEST(IbCmDisconnect, before_the_rtu_came) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmRtu>(m); };
  ASSERT_EQ(w.a.cm.confirm(w.now, ends.active, {}), 0);
  ASSERT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  w.deliver();
  w.b.expect(Event::Kind::disconnected);
  w.a.expect(Event::Kind::disconnected);
  EXPECT_TRUE(w.b.quiet());
}

TEST(IbCmDisconnect, before_the_reply_was_confirmed) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
  ASSERT_EQ(w.b.cm.establish(w.now, ends.passive), 0);
  ASSERT_EQ(w.b.cm.disconnect(w.now, ends.passive, {}), 0);
  w.deliver();
  w.a.expect(Event::Kind::disconnected);
  EXPECT_EQ(w.a.cm.confirm(w.now, ends.active, {}), EINVAL);
}

TEST(IbCmDisconnect, from_another_address_or_for_another_qp_it_counts_for_nothing) {
  World w;
  const World::Ends ends = w.established();
  test::Host other(3, {});
  wire::Mad mad;
  wire::write_cm(wire::CmDreq{ends.active, ends.passive, 0x222, {}}, 1, mad);
  w.b.cm.on_mad(w.now, w.b.to(other), mad);
  Route other_device = w.b.to(w.a);
  other_device.device = 8;
  w.b.cm.on_mad(w.now, other_device, mad);
  w.inject(w.b, w.a, wire::CmDreq{ends.active, ends.passive, 0x223, {}});
  EXPECT_EQ(w.b.cm.state(ends.passive), State::established);
  EXPECT_EQ(w.b.cm.counters().unexpected, 3u);
  EXPECT_EQ(w.take_log(), "");
}

TEST(IbCmDisconnect, an_answer_for_another_connection_is_none) {
  World w;
  const World::Ends ends = w.established();
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmDreq>(m); };
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  w.inject(w.a, w.b, wire::CmDrep{ends.passive + 1, ends.active, {}});
  EXPECT_EQ(w.a.cm.state(ends.active), State::dreq_sent);
  EXPECT_EQ(w.a.cm.counters().unexpected, 1u);
}

TEST(IbCmRelease, of_a_connection_disconnects_and_forgets) {
  World w;
  const World::Ends ends = w.established();
  w.a.cm.release(w.now, ends.active);
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), ENOENT);
  w.deliver();
  w.b.expect(Event::Kind::disconnected);
  EXPECT_EQ(w.a.cm.state(ends.active), State::timewait);
  w.advance_ms(5000);
  EXPECT_TRUE(w.a.quiet());
  EXPECT_EQ(w.a.cm.live(), 0u);
}

TEST(IbCmRelease, ends_although_the_peer_is_silent) {
  World w;
  const World::Ends ends = w.established();
  w.lose = [](const wire::CmMessage&) { return true; };
  w.a.cm.release(w.now, ends.active);
  w.advance_ms(8000);  // one full wait and timewait
  EXPECT_EQ(w.a.cm.live(), 0u);
  EXPECT_TRUE(w.a.quiet());
  EXPECT_EQ(w.take_log(), "[DREQ] [DREQ] [DREQ] [DREQ] [DREQ]");
}

TEST(IbCmRelease, while_the_peer_is_asked_does_not_ask_for_long) {
  World w;
  const World::Ends ends = w.established();
  w.lose = [](const wire::CmMessage&) { return true; };
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  w.advance_ms(100);
  w.a.cm.release(w.now, ends.active);
  w.advance_ms(8000);
  EXPECT_EQ(w.a.cm.live(), 0u);
}

TEST(IbCmRelease, of_a_request_received_rejects_it) {
  World w;
  const World::Ends ends = w.requested();
  w.b.cm.release(w.now, ends.passive);
  EXPECT_EQ(w.b.cm.live(), 0u);
  w.deliver();
  EXPECT_EQ(std::get<wire::CmRej>(w.a.expect(Event::Kind::rejected).message).reason,
            CmRejectReason::consumer_defined);
}

TEST(IbCmRelease, of_a_reply_received_rejects_it) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.cm.release(w.now, ends.active);
  EXPECT_EQ(w.a.cm.live(), 0u);
  w.deliver();
  w.b.expect(Event::Kind::rejected);
}

TEST(IbCmRelease, of_a_reply_sent_ends_the_peer_wherever_it_is) {
  for (const bool reply_lost : {true, false}) {
    World w;
    const World::Ends ends = w.requested();
    w.lose = [&](const wire::CmMessage& m) { return reply_lost && is<wire::CmRep>(m); };
    ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
    w.b.cm.release(w.now, ends.passive);
    w.advance_ms(300);
    if (reply_lost) {
      w.a.expect(Event::Kind::rejected);
    } else {
      w.a.expect(Event::Kind::reply);
      w.a.expect(Event::Kind::disconnected);
    }
    w.advance_ms(8000);
    EXPECT_EQ(w.b.cm.live(), 0u);
    EXPECT_TRUE(w.b.quiet());
  }
}

TEST(IbCmRelease, events_that_wait_are_not_heard_any_more) {
  World w;
  w.a.cm.connect(w.now, w.a.to(w.b), w.request(w.a, w.b));
  w.b.cm.on_mad(w.now, w.b.to(w.a), w.a.cm.poll_transmit()->mad);
  // The event waits in b; its endpoint is known from the answer to a repetition.
  const wire::Mad again = [&] {
    w.now = *w.a.cm.next_deadline();
    w.a.cm.on_deadline(w.now);
    return w.a.cm.poll_transmit()->mad;
  }();
  w.b.cm.on_mad(w.now, w.b.to(w.a), again);
  wire::CmMessage mra;
  uint64_t transaction = 0;
  ASSERT_EQ(wire::parse_cm(w.b.cm.poll_transmit()->mad, mra, transaction), wire::CmParseError::none);
  w.b.cm.release(w.now, std::get<wire::CmMra>(mra).local_id);
  EXPECT_FALSE(w.b.cm.poll_event().has_value());
}

TEST(IbCmDevice, that_is_gone_takes_its_endpoints_along) {
  World w;
  const World::Ends ends = w.established();
  w.requested(0x112);
  Route other = w.a.to(w.b);
  other.device = 8;
  w.a.cm.connect(w.now, other, w.request(w.a, w.b, 0x113));
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), 0);
  w.a.cm.forget_device(7);
  EXPECT_EQ(w.a.cm.live(), 1u);
  const auto out = w.a.cm.poll_transmit();
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->route.device, 8u);
  EXPECT_FALSE(w.a.cm.poll_transmit().has_value());
  EXPECT_FALSE(w.a.cm.poll_event().has_value());
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active, {}), ENOENT);
}

TEST(IbCmMalformed, is_counted_and_dropped) {
  World w;
  wire::Mad mad{};
  w.a.cm.on_mad(w.now, w.a.to(w.b), mad);
  w.a.cm.on_mad(w.now, w.a.to(w.b), {});
  EXPECT_EQ(w.a.cm.counters().malformed, 2u);
  EXPECT_FALSE(w.a.cm.poll_transmit().has_value());
}

}  // namespace
}  // namespace uroce::cm
