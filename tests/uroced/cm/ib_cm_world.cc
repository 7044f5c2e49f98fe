// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/uroced/cm/ib_cm_world.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce::cm::test {

wire::Gid gid(uint8_t last) {
  wire::Gid g;
  g.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
  return g;
}

const char* name(const wire::CmMessage& message) {
  static constexpr const char* kNames[] = {"REQ",  "MRA",  "REJ",      "REP",     "RTU",
                                           "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"};
  return kNames[message.index()];
}

Route Host::to(const Host& peer) const {
  Route route;
  route.device = 7;
  route.path.source = gid;
  route.path.destination = peer.gid;
  return route;
}

Event Host::expect(Event::Kind kind) {
  if (events.empty()) {
    ADD_FAILURE() << "no event";
    return {};
  }
  const Event event = events.front();
  events.erase(events.begin());
  EXPECT_EQ(static_cast<int>(event.kind), static_cast<int>(kind));
  return event;
}

std::string Wire::take_log() {
  std::string out;
  out.swap(log);
  return out;
}

bool Wire::carries(const wire::Mad& mad, bool somebody_there) {
  wire::CmMessage message;
  uint64_t transaction = 0;
  EXPECT_EQ(wire::parse_cm(mad, message, transaction), wire::CmParseError::none);
  const bool lost = lose(message) || !somebody_there;
  if (!log.empty()) log += ' ';
  log += lost ? "[" + std::string(name(message)) + "]" : name(message);
  return !lost;
}

void World::drain(Host& from, Host& to, bool& more) {
  while (const std::optional<Event> event = from.cm.poll_event()) from.events.push_back(*event);
  while (const std::optional<Outgoing> out = from.cm.poll_transmit()) {
    more = true;
    EXPECT_EQ(out->route, from.to(to));
    if (carries(out->mad)) to.cm.on_mad(now, to.to(from), out->mad);
  }
}

void World::deliver() {
  for (bool more = true; more;) {
    more = false;
    drain(a, b, more);
    drain(b, a, more);
  }
}

void World::inject(Host& host, const Host& peer, const wire::CmMessage& message) {
  wire::Mad mad;
  wire::write_cm(message, 99, mad);
  host.cm.on_mad(now, host.to(peer), mad);
  deliver();
}

wire::CmReq World::request(const Host& from, const Host&, uint32_t qpn) const {
  wire::CmReq m;
  m.service_id = wire::ip_service_id(0x0106, 7471);
  m.local_ca_guid = from.guid;
  m.local_qpn = qpn;
  m.remote_response_timeout = 20;  // 4.3 s
  m.local_response_timeout = 20;
  m.max_cm_retries = 3;
  m.primary.local_ack_timeout = 18;  // 1.07 s
  return m;
}

wire::CmRep World::reply(const Host& from, uint32_t qpn) const {
  wire::CmRep m;
  m.local_ca_guid = from.guid;
  m.local_qpn = qpn;
  return m;
}

World::Ends World::requested(uint32_t qpn) {
  Ends ends;
  ends.active = a.cm.connect(now, a.to(b), request(a, b, qpn));
  EXPECT_NE(ends.active, 0u);
  deliver();
  ends.passive = b.expect(Event::Kind::request).endpoint;
  take_log();
  return ends;
}

World::Ends World::established(uint32_t active_qpn, uint32_t passive_qpn) {
  const Ends ends = requested(active_qpn);
  EXPECT_EQ(b.cm.accept(now, ends.passive, reply(b, passive_qpn)), 0);
  deliver();
  EXPECT_EQ(a.expect(Event::Kind::reply).endpoint, ends.active);
  EXPECT_EQ(a.cm.confirm(now, ends.active, {}), 0);
  deliver();
  EXPECT_EQ(b.expect(Event::Kind::established).endpoint, ends.passive);
  EXPECT_TRUE(a.quiet() && b.quiet());
  take_log();
  return ends;
}

}  // namespace uroce::cm::test
