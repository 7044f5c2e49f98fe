// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Two communication managers, a wire that loses what a test says, and a clock moved by hand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/uroced/cm/ib_cm.h"

namespace uroce::cm::test {

inline constexpr int64_t kMs = 1'000'000;

wire::Gid gid(uint8_t last);  // 10.0.0.last

struct Host {
  Host(uint8_t number, const IbCm::Limits& limits)
      : cm(number, limits), gid(test::gid(number)), guid(number) {}
  IbCm cm;
  wire::Gid gid;
  uint64_t guid;
  std::vector<Event> events;  // not yet looked at

  Route to(const Host& peer) const;
  // The next event; fails the test unless it is of this kind.
  Event expect(Event::Kind kind);
  bool quiet() const { return events.empty(); }
};

class World {
 public:
  explicit World(const IbCm::Limits& limits = {}) : a(1, limits), b(2, limits) {}

  Host a, b;
  Time now{1'000'000'000};
  // True: this message is lost. Set anew by the tests.
  std::function<bool(const wire::CmMessage&)> lose = [](const wire::CmMessage&) { return false; };
  // What was sent since the test looked last, as "REQ REP RTU", lost messages in brackets.
  std::string log;

  void deliver();  // until nobody says anything
  void advance(int64_t ns);
  void advance_ms(int64_t ms) { advance(ms * kMs); }
  // The MAD of `message` reaches `host` as if `peer` had sent it.
  void inject(Host& host, const Host& peer, const wire::CmMessage& message);
  std::string take_log();

  wire::CmReq request(const Host& from, const Host& to, uint32_t qpn = 0x111) const;
  wire::CmRep reply(const Host& from, uint32_t qpn = 0x222) const;
  struct Ends {
    Endpoint active = 0, passive = 0;
  };
  // a connects to b; b has the request, unanswered.
  Ends requested(uint32_t qpn = 0x111);
  // The same, and b has accepted, a confirmed.
  Ends established(uint32_t active_qpn = 0x111, uint32_t passive_qpn = 0x222);

 private:
  void drain(Host& from, Host& to, bool& more);
};

template <typename Message>
bool is(const wire::CmMessage& message) {
  return std::holds_alternative<Message>(message);
}

const char* name(const wire::CmMessage& message);

}  // namespace uroce::cm::test
