// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Two communication managers, a wire that loses what a test says, and a clock moved by hand.
#pragma once

#include <algorithm>
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

// What every world of two has.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void deliver() = 0;  // until nobody says anything
  Time now{1'000'000'000};
  // True: this message is lost. Set anew by the tests.
  std::function<bool(const wire::CmMessage&)> lose = [](const wire::CmMessage&) { return false; };
  // What was sent since the test looked last, as "REQ REP RTU", lost messages in brackets.
  std::string log;
  std::string take_log();

 protected:
  // Writes the message into the log. True: it arrives, unless there is nobody where it goes.
  bool carries(const wire::Mad& mad, bool somebody_there = true);
  template <typename Cm>
  void pass_time(Cm& a, Cm& b, int64_t ns) {
    deliver();
    const Time end = now + ns;
    for (;;) {
      const Time next = std::min(a.next_deadline().value_or(end + 1), b.next_deadline().value_or(end + 1));
      if (next > end) break;
      now = std::max(now, next);
      a.on_deadline(now);
      b.on_deadline(now);
      deliver();
    }
    now = end;
  }
};

class World : public Wire {
 public:
  explicit World(const IbCm::Limits& limits = {}) : a(1, limits), b(2, limits) {}

  Host a, b;

  void deliver() override;
  void advance(int64_t ns) { pass_time(a.cm, b.cm, ns); }
  void advance_ms(int64_t ms) { advance(ms * kMs); }
  // The MAD of `message` reaches `host` as if `peer` had sent it.
  void inject(Host& host, const Host& peer, const wire::CmMessage& message);

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
