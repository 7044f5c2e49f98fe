// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Who owns the endpoints of one host in the simulation: answers events with random calls, now or later, and
// checks that every endpoint tells a story that makes sense.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tests/sim/random.h"
#include "tools/uroced/cm/ib_cm.h"

namespace uroce::sim {

// How far an endpoint has come, as its owner sees it.
enum class CmPhase : uint8_t {
  connecting,    // connect() called
  replied,       // reply heard
  requested,     // request heard
  accepted,      // accept() called
  established,   // confirm() called, or established heard
  disconnected,  // heard
  resolving,     // resolve() called
  asked,         // sidr_request heard
  over,          // an event or a call said so: nothing but release() is left
};

enum class CmCall : uint8_t { accept, reject, drop, release, confirm, establish, disconnect, answer };

// A call that is made later.
struct CmTask {
  engine::Time at;
  cm::Endpoint endpoint = 0;
  CmCall call{};
};

struct CmTally {
  uint64_t connects = 0, established = 0, rejected = 0, unreachable = 0, disconnected = 0, timed_out = 0;
  uint64_t resolutions = 0, answers = 0, releases = 0;
};

class CmOwner {
 public:
  // `patient`: waits so long for answers that only a lost or a missing one is given up.
  CmOwner(cm::IbCm& cm, uint8_t number, Random& random, bool patient)
      : cm_(cm), number_(number), random_(random), patient_(patient) {}

  void connect(engine::Time now, const cm::Route& to);
  void resolve(engine::Time now, const cm::Route& to);
  void on_event(engine::Time now, const cm::Event& event);
  void run(engine::Time now, const CmTask& task);
  // Tasks since the last call.
  std::vector<CmTask> take_tasks();

  // From here on nothing new: what is established is disconnected, what waits for an answer gets one.
  void wind_up(engine::Time now);
  // All that is left must be over; it is released.
  void release_all(engine::Time now);

  const CmTally& tally() const { return tally_; }
  const std::string& wrong() const { return wrong_; }

 private:
  struct Record {
    CmPhase phase{};
    bool timewait_over = false;
    engine::Time since;
  };

  Record* known(const cm::Event& event);
  void fail(const char* what, cm::Endpoint endpoint);
  void later(engine::Time now, cm::Endpoint endpoint, CmCall call, int64_t within_ms);
  bool move(const cm::Event& event, Record& record, std::initializer_list<CmPhase> from, CmPhase to);
  void decide_request(engine::Time now, cm::Endpoint endpoint);
  void decide_reply(engine::Time now, cm::Endpoint endpoint);
  void decide_established(engine::Time now, cm::Endpoint endpoint);
  void release_sometime(engine::Time now, cm::Endpoint endpoint);
  uint32_t new_qpn();
  uint8_t timeout();
  uint8_t retries();

  cm::IbCm& cm_;
  const uint8_t number_;
  Random& random_;
  const bool patient_;
  std::unordered_map<cm::Endpoint, Record> records_;
  std::vector<cm::Endpoint> order_;  // in which they came: nothing may hang on the order of a hash table
  std::vector<CmTask> tasks_;
  CmTally tally_;
  std::string wrong_;
  uint32_t qpns_ = 0;
  bool winding_up_ = false;
};

}  // namespace uroce::sim
