// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/uroced/cm/ib_cm_world.h"

namespace uroce::cm {
namespace {

using test::is;
using test::World;

struct Resolution {
  Endpoint active = 0, passive = 0;
};

Resolution asked(World& w) {
  wire::CmSidrReq req;
  req.service_id = wire::ip_service_id(0x0111, 4000);
  Resolution r;
  r.active = w.a.cm.resolve(w.now, w.a.to(w.b), req, 20, 3);
  w.deliver();
  const Event event = w.b.expect(Event::Kind::sidr_request);
  EXPECT_EQ(std::get<wire::CmSidrReq>(event.message).service_id, req.service_id);
  r.passive = event.endpoint;
  return r;
}

TEST(IbCmSidr, asks_and_answers) {
  World w;
  const Resolution r = asked(w);
  EXPECT_EQ(w.a.cm.state(r.active), State::sidr_req_sent);
  EXPECT_EQ(w.b.cm.state(r.passive), State::sidr_req_received);
  wire::CmSidrRep answer;
  answer.qpn = 0x444;
  answer.qkey = 0x1234;
  EXPECT_EQ(w.b.cm.answer_sidr(w.now, r.passive, answer), 0);
  EXPECT_EQ(w.b.cm.answer_sidr(w.now, r.passive, answer), EINVAL);
  w.deliver();
  const auto reply = std::get<wire::CmSidrRep>(w.a.expect(Event::Kind::sidr_reply).message);
  EXPECT_EQ(reply.qpn, 0x444u);
  EXPECT_EQ(reply.qkey, 0x1234u);
  EXPECT_EQ(reply.service_id, wire::ip_service_id(0x0111, 4000));
  EXPECT_EQ(w.a.cm.state(r.active), State::idle);
  EXPECT_EQ(w.b.cm.state(r.passive), State::idle);
  w.advance_ms(100'000);
  EXPECT_EQ(w.take_log(), "SIDR_REQ SIDR_REP");
}

TEST(IbCmSidr, a_lost_answer_is_repeated_when_the_question_is) {
  World w;
  const Resolution r = asked(w);
  w.advance_ms(250);
  EXPECT_EQ(w.take_log(), "SIDR_REQ SIDR_REQ");  // b thinks about it
  int lost = 0;
  w.lose = [&](const wire::CmMessage& m) { return is<wire::CmSidrRep>(m) && lost++ == 0; };
  EXPECT_EQ(w.b.cm.answer_sidr(w.now, r.passive, {}), 0);
  w.advance_ms(500);
  EXPECT_EQ(w.take_log(), "[SIDR_REP] SIDR_REQ SIDR_REP");
  w.a.expect(Event::Kind::sidr_reply);
  EXPECT_TRUE(w.b.quiet());
}

TEST(IbCmSidr, gives_up) {
  World w;
  w.lose = [](const wire::CmMessage&) { return true; };
  const Endpoint active = w.a.cm.resolve(w.now, w.a.to(w.b), {}, 20, 1);
  w.advance_ms(9000);
  w.a.expect(Event::Kind::unreachable);
  EXPECT_EQ(w.a.cm.state(active), State::idle);
  EXPECT_EQ(w.take_log(), "[SIDR_REQ] [SIDR_REQ] [SIDR_REQ] [SIDR_REQ] [SIDR_REQ] [SIDR_REQ]");
}

TEST(IbCmSidr, release_says_no_or_nothing) {
  World w;
  const Resolution first = asked(w);
  w.b.cm.release(w.now, first.passive);
  w.deliver();
  EXPECT_EQ(std::get<wire::CmSidrRep>(w.a.expect(Event::Kind::sidr_reply).message).status,
            wire::SidrStatus::rejected);
  EXPECT_EQ(w.b.cm.live(), 0u);
  const Resolution second = asked(w);
  w.a.cm.release(w.now, second.active);
  w.take_log();
  w.advance_ms(100'000);
  EXPECT_EQ(w.take_log(), "");
  EXPECT_EQ(w.b.cm.answer_sidr(w.now, second.passive, {}), 0);
  w.deliver();
  EXPECT_TRUE(w.a.quiet());
  EXPECT_EQ(w.a.cm.counters().unexpected, 1u);
}

TEST(IbCmSidr, an_answer_of_another_is_none) {
  World w;
  const Resolution r = asked(w);
  test::Host other(3, {});
  wire::CmSidrRep forged;
  forged.request_id = r.active;
  w.inject(w.a, other, forged);
  EXPECT_TRUE(w.a.quiet());
  EXPECT_EQ(w.a.cm.state(r.active), State::sidr_req_sent);
}

}  // namespace
}  // namespace uroce::cm
