// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/uroced/cm/ib_cm_world.h"

namespace uroce::cm {
namespace {

using test::is;
using test::World;
using wire::CmRejectReason;

wire::CmRej last_rej(World& w, const std::function<void()>& what) {
  wire::CmRej rej;
  w.lose = [&](const wire::CmMessage& m) {
    if (is<wire::CmRej>(m)) rej = std::get<wire::CmRej>(m);
    return false;
  };
  what();
  w.lose = [](const wire::CmMessage&) { return false; };
  return rej;
}

TEST(IbCmPassive, a_repeated_request_after_the_reply_repeats_the_reply) {
  World w;
  const World::Ends ends = w.requested();
  w.lose = [](const wire::CmMessage& m) { return is<wire::CmRep>(m); };
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.take_log();
  w.lose = [](const wire::CmMessage&) { return false; };
  // Before b's own timer: a hears of the same connection once.
  wire::CmReq again = w.request(w.a, w.b);
  again.local_id = ends.active;
  again.primary.local_gid = w.a.gid;
  w.inject(w.b, w.a, again);
  EXPECT_EQ(w.take_log(), "REP");
  w.a.expect(Event::Kind::reply);
  EXPECT_TRUE(w.b.quiet());
}

TEST(IbCmPassive, a_lost_reply_is_repeated_and_given_up) {
  World w;
  const World::Ends ends = w.requested();
  w.lose = [](const wire::CmMessage& m) { return !is<wire::CmRej>(m); };
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.take_log();
  // Let a wait longer than b does.
  wire::CmMra mra;
  mra.remote_id = ends.active;
  mra.service_timeout = 24;
  w.inject(w.a, w.b, mra);
  const int64_t full = (int64_t{4096} << 20) + (int64_t{4096} << 18);
  w.advance(4 * full);
  EXPECT_EQ(w.take_log(), "[REP] [REP] [REP] [REP] [REP] [REP] [REP] REJ");
  w.b.expect(Event::Kind::unreachable);
  EXPECT_EQ(std::get<wire::CmRej>(w.a.expect(Event::Kind::rejected).message).reason, CmRejectReason::timeout);
}

TEST(IbCmPassive, data_before_the_rtu_establishes) {
  World w;
  const World::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, w.reply(w.b)), 0);
  w.deliver();
  w.a.expect(Event::Kind::reply);
  EXPECT_EQ(w.b.cm.establish(w.now, ends.passive), 0);
  w.deliver();
  w.b.expect(Event::Kind::established);
  EXPECT_EQ(w.b.cm.establish(w.now, ends.passive), EINVAL);
  ASSERT_EQ(w.a.cm.confirm(w.now, ends.active, {}), 0);
  w.advance_ms(100'000);
  EXPECT_TRUE(w.b.quiet());  // the RTU is no second event
  EXPECT_EQ(w.b.cm.counters().duplicates, 1u);
  EXPECT_EQ(w.take_log(), "REP RTU");
}

TEST(IbCmPassive, unknown_transport_types_are_refused) {
  World w;
  for (const auto& [transport, extended] :
       {std::pair{wire::CmTransport::rd, 0}, {wire::CmTransport::extended, 2}}) {
    wire::CmReq req = w.request(w.a, w.b);
    req.transport = transport;
    req.extended_transport = static_cast<uint8_t>(extended);
    const Endpoint active = w.a.cm.connect(w.now, w.a.to(w.b), req);
    w.deliver();
    const Event event = w.a.expect(Event::Kind::rejected);
    EXPECT_EQ(event.endpoint, active);
    EXPECT_EQ(std::get<wire::CmRej>(event.message).reason, CmRejectReason::invalid_transport_type);
    EXPECT_EQ(std::get<wire::CmRej>(event.message).of, wire::CmMessageKind::req);
  }
  EXPECT_EQ(w.b.cm.live(), 0u);
}

TEST(IbCmPassive, a_request_for_the_address_of_another_is_refused) {
  World w;
  wire::CmReq req = w.request(w.a, w.b);
  req.primary.local_gid = test::gid(9);
  w.a.cm.connect(w.now, w.a.to(w.b), req);
  w.deliver();
  const auto rej = std::get<wire::CmRej>(w.a.expect(Event::Kind::rejected).message);
  EXPECT_EQ(rej.reason, CmRejectReason::invalid_gid);
  EXPECT_EQ(rej.info_length, 16);
  EXPECT_EQ(rej.info[15], 1);
}

TEST(IbCmPassive, a_forgotten_connection_is_stale) {
  World w;
  const World::Ends old = w.established();
  w.a.cm.drop(old.active);  // as if a's daemon had died
  const Endpoint fresh = w.a.cm.connect(w.now, w.a.to(w.b), w.request(w.a, w.b));
  w.deliver();
  EXPECT_EQ(w.take_log(), "REQ REJ DREQ DREP");
  const Event rejected = w.a.expect(Event::Kind::rejected);
  EXPECT_EQ(rejected.endpoint, fresh);
  EXPECT_EQ(std::get<wire::CmRej>(rejected.message).reason, CmRejectReason::stale_connection);
  EXPECT_EQ(w.b.expect(Event::Kind::disconnected).endpoint, old.passive);
  EXPECT_EQ(w.b.cm.counters().stale, 1u);
  // Once in timewait the QP may connect again.
  w.a.cm.connect(w.now, w.a.to(w.b), w.request(w.a, w.b));
  w.deliver();
  w.b.expect(Event::Kind::request);
}

TEST(IbCmPassive, nobody_can_call_the_connection_of_another_stale) {
  World w;
  const World::Ends old = w.established();
  test::Host other(3, {});
  wire::CmReq req = w.request(w.a, w.b);
  req.local_id = 5;
  req.primary.local_gid = other.gid;
  w.inject(w.b, other, req);  // the same QPN and CA GUID
  EXPECT_EQ(w.b.cm.state(old.passive), State::established);
  w.b.expect(Event::Kind::request);
}

TEST(IbCmPassive, an_older_connection_to_the_qp_of_a_reply_is_stale) {
  World w;
  const World::Ends old = w.established(0x111, 0x222);
  w.b.cm.drop(old.passive);
  const World::Ends fresh = w.requested(0x112);
  ASSERT_EQ(w.b.cm.accept(w.now, fresh.passive, w.reply(w.b, 0x222)), 0);
  w.deliver();
  EXPECT_EQ(w.a.expect(Event::Kind::reply).endpoint, fresh.active);
  EXPECT_EQ(w.a.expect(Event::Kind::disconnected).endpoint, old.active);
  EXPECT_EQ(w.take_log(), "REP DREQ DREP");
}

TEST(IbCmPassive, a_flood_of_requests_is_bounded_for_a_peer_and_for_all) {
  IbCm::Limits limits;
  limits.endpoints = 100;
  limits.half_open = 30;
  limits.half_open_per_source = 10;
  World w(limits);
  test::Host other(3, {}), third(4, {}), fourth(5, {});
  std::vector<Endpoint> endpoints;
  const auto flood = [&](const test::Host& peer) {
    size_t taken = 0;
    for (uint32_t i = 1; i <= 50; ++i) {
      wire::CmReq req = w.request(peer, w.b, i);
      req.local_id = i;
      req.primary.local_gid = peer.gid;
      wire::Mad mad;
      wire::write_cm(req, i, mad);
      w.b.cm.on_mad(w.now, w.b.to(peer), mad);
      while (const auto event = w.b.cm.poll_event()) endpoints.push_back(event->endpoint), ++taken;
      while (w.b.cm.poll_transmit()) {
      }
    }
    return taken;
  };
  EXPECT_EQ(flood(w.a), 10u);
  EXPECT_EQ(flood(other), 10u);
  EXPECT_EQ(flood(third), 10u);
  EXPECT_EQ(flood(fourth), 0u);
  EXPECT_EQ(w.b.cm.counters().no_resources, 40u * 3 + 50);
  EXPECT_EQ(w.b.cm.live(), 30u);
  // There is still room to connect, and whoever was answered makes room for the next.
  EXPECT_NE(w.b.cm.connect(w.now, w.b.to(w.a), w.request(w.b, w.a)), 0u);
  EXPECT_EQ(w.b.cm.reject(w.now, endpoints[0], CmRejectReason::consumer_defined, {}, {}), 0);
  EXPECT_EQ(w.b.cm.accept(w.now, endpoints[1], w.reply(w.b)), 0);
  w.b.cm.drop(endpoints[10]);
  w.b.cm.release(w.now, endpoints[11]);
  while (w.b.cm.poll_transmit()) {
  }
  EXPECT_EQ(flood(fourth), 4u);
}

TEST(IbCmPassive, no_room_is_said) {
  IbCm::Limits limits;
  limits.endpoints = 1;
  World w(limits);
  const World::Ends ends = w.requested();
  EXPECT_EQ(w.a.cm.connect(w.now, w.a.to(w.b), w.request(w.a, w.b, 0x112)), 0u);
  wire::CmReq req = w.request(w.a, w.b, 0x113);
  req.local_id = ends.active + 1;
  req.primary.local_gid = w.a.gid;
  const wire::CmRej rej = last_rej(w, [&] { w.inject(w.b, w.a, req); });
  EXPECT_EQ(rej.reason, CmRejectReason::no_resources);
  EXPECT_EQ(rej.remote_id, req.local_id);
}

TEST(IbCmPassive, an_rtu_for_nothing_is_told_so) {
  World w;
  const World::Ends ends = w.established();
  w.b.cm.drop(ends.passive);
  w.inject(w.b, w.a, wire::CmRtu{ends.active, ends.passive, {}});
  EXPECT_EQ(w.take_log(), "REJ");
  const Event event = w.a.expect(Event::Kind::disconnected);
  EXPECT_TRUE(is<wire::CmRej>(event.message));
  EXPECT_EQ(w.a.cm.state(ends.active), State::timewait);
}

TEST(IbCmPassive, a_dropped_request_is_a_new_one_when_it_comes_again) {
  World w;
  const World::Ends ends = w.requested();
  w.b.cm.drop(ends.passive);
  EXPECT_EQ(w.b.cm.live(), 0u);
  w.advance_ms(250);
  EXPECT_EQ(w.take_log(), "REQ");
  const Event event = w.b.expect(Event::Kind::request);
  EXPECT_NE(event.endpoint, ends.passive);
}

}  // namespace
}  // namespace uroce::cm
