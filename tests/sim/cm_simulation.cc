// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/sim/cm_simulation.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <queue>

namespace uroce::sim {

using cm::Event;
using engine::Time;

namespace {

constexpr int kHosts = 3;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLongest = 24 * 3600 * 1000 * kMs;  // of virtual time: whatever runs longer never ends

wire::Gid gid(int host) {
  wire::Gid g;
  g.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, static_cast<uint8_t>(host + 1)};
  return g;
}

cm::Route route(int from, int to) {
  cm::Route r;
  r.path.source = gid(from);
  r.path.destination = gid(to);
  return r;
}

struct Incident {  // a MAD arrives, or an owner calls
  Time at;
  uint64_t number = 0;
  int host = 0, from = 0;
  std::unique_ptr<wire::Mad> mad;
  CmTask task;
};
struct Later {
  bool operator()(const Incident& a, const Incident& b) const {
    return a.at != b.at ? a.at > b.at : a.number > b.number;
  }
};

class Simulation {
 public:
  explicit Simulation(const CmScenario& scenario) : s_(scenario), random_(scenario.seed) {
    for (int i = 0; i < kHosts; ++i) {
      hosts_.push_back(std::make_unique<cm::IbCm>(random_.next()));
      owners_.emplace_back(*hosts_[i], static_cast<uint8_t>(i + 1), random_, s_.patient);
    }
  }

  CmOutcome run() {
    for (uint64_t i = 0; i < s_.connects && right(); ++i) {
      start();
      run_until(now_ + static_cast<int64_t>(random_.below(static_cast<uint64_t>(s_.pause_ms) * kMs)));
    }
    // Two rounds: what one host says when it winds up may be the beginning of something at another.
    run_until(now_ + 60'000 * kMs);
    for (int i = 0; i < kHosts; ++i) {
      owners_[i].wind_up(now_);
      drain(i);
    }
    run_until(Time{kLongest});
    for (int i = 0; i < kHosts && right(); ++i) {
      owners_[i].release_all(now_);
      drain(i);
    }
    run_until(Time{kLongest});
    return outcome();
  }

 private:
  bool right() const {
    return wrong_.empty() &&
           std::all_of(owners_.begin(), owners_.end(), [](const CmOwner& o) { return o.wrong().empty(); });
  }

  void start() {
    const int from = static_cast<int>(random_.below(kHosts));
    const int to = static_cast<int>(random_.chance(0.1) ? from : random_.below(kHosts));  // sometimes itself
    if (random_.chance(0.1)) owners_[from].resolve(now_, route(from, to));
    owners_[from].connect(now_, route(from, to));
    drain(from);
  }

  void run_until(Time end) {
    while (right()) {
      Time next = incidents_.empty() ? end + 1 : incidents_.top().at;
      for (const auto& host : hosts_) next = std::min(next, host->next_deadline().value_or(end + 1));
      if (next > end) break;
      now_ = std::max(now_, next);
      while (!incidents_.empty() && incidents_.top().at <= now_) happen();
      for (int i = 0; i < kHosts; ++i) {
        hosts_[i]->on_deadline(now_);
        drain(i);
      }
    }
    if (end.ns != kLongest) now_ = end;
    if (end.ns == kLongest && !incidents_.empty() && right()) wrong_ = "it does not come to an end";
  }

  void happen() {
    Incident incident = std::move(const_cast<Incident&>(incidents_.top()));
    incidents_.pop();
    if (incident.mad) {
      hosts_[incident.host]->on_mad(now_, route(incident.host, incident.from), *incident.mad);
    } else {
      owners_[incident.host].run(now_, incident.task);
    }
    drain(incident.host);
  }

  void drain(int host) {
    for (bool more = true; more;) {
      more = false;
      while (const std::optional<Event> event = hosts_[host]->poll_event()) {
        more = true;
        mix(event->endpoint);
        mix(static_cast<uint64_t>(event->kind));
        owners_[host].on_event(now_, *event);
      }
      for (CmTask& task : owners_[host].take_tasks()) {
        if (task.at <= now_) {
          more = true;
          owners_[host].run(now_, task);
        } else {
          incidents_.push({task.at, ++number_, host, 0, nullptr, task});
        }
      }
      while (const std::optional<cm::Outgoing> out = hosts_[host]->poll_transmit()) transmit(host, *out);
    }
  }

  void transmit(int from, const cm::Outgoing& out) {
    ++mads_;
    for (size_t i = 0; i < out.mad.size(); i += 8) {
      uint64_t word;
      std::memcpy(&word, out.mad.data() + i, 8);
      mix(word);
    }
    count_repetition(from, out.mad);
    int to = 0;
    while (to < kHosts && gid(to) != out.route.path.destination) ++to;
    if (to == kHosts || out.route.path.source != gid(from)) {
      wrong_ = "a MAD to or from nowhere";
      return;
    }
    if (!random_.chance(s_.loss)) launch(from, to, out.mad);
    if (random_.chance(s_.duplicate)) launch(from, to, out.mad);
    if (random_.chance(s_.forge)) launch(static_cast<int>(random_.below(kHosts)), to, out.mad);
    if (random_.chance(s_.mutate)) {
      wire::Mad damaged = out.mad;
      for (uint64_t n = random_.between(1, 3); n-- != 0;)
        damaged[random_.below(random_.chance(0.5) ? 40 : damaged.size())] =
            static_cast<std::byte>(random_.below(256));
      launch(from, to, damaged);
    }
  }

  void launch(int from, int to, const wire::Mad& mad) {
    const uint64_t late = random_.chance(s_.reorder) ? random_.below(2000 * kMs) : 0;
    const Time at = now_ + static_cast<int64_t>(random_.between(10'000, 200'000) + late);
    incidents_.push({at, ++number_, to, from, std::make_unique<wire::Mad>(mad), {}});
  }

  // REQ, DREQ and SIDR_REQ are repeated by their timer alone: once, four times early, and the retries.
  void count_repetition(int host, const wire::Mad& mad) {
    const auto attribute = std::to_integer<int>(mad[17]);
    if (attribute != 0x10 && attribute != 0x15 && attribute != 0x17) return;
    std::array<std::byte, 6> key;
    key[0] = static_cast<std::byte>(host);
    key[1] = mad[17];
    std::copy_n(mad.begin() + 24, 4, key.begin() + 2);
    if (++repetitions_[key] > 1 + 4 + 15 && right()) wrong_ = "a message repeated too often";
  }

  void mix(uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3u + (hash_ >> 29); }

  CmOutcome outcome() {
    CmOutcome out;
    out.wrong = wrong_;
    for (int i = 0; i < kHosts; ++i) {
      const CmOwner& owner = owners_[i];
      if (out.wrong.empty()) out.wrong = owner.wrong();
      if (out.wrong.empty() && hosts_[i]->live() != 0)
        out.wrong =
            "host " + std::to_string(i + 1) + " keeps " + std::to_string(hosts_[i]->live()) + " endpoints";
      const CmTally& t = owner.tally();
      out.tally.connects += t.connects;
      out.tally.established += t.established;
      out.tally.rejected += t.rejected;
      out.tally.unreachable += t.unreachable;
      out.tally.disconnected += t.disconnected;
      out.tally.timed_out += t.timed_out;
      out.tally.resolutions += t.resolutions;
      out.tally.answers += t.answers;
      out.tally.releases += t.releases;
      out.retransmitted += hosts_[i]->counters().retransmitted;
      out.stale += hosts_[i]->counters().stale;
    }
    out.mads = mads_;
    out.hash = hash_;
    out.virtual_ns = now_.ns;
    return out;
  }

  const CmScenario s_;
  Random random_;
  Time now_{1'000'000'000};
  std::vector<std::unique_ptr<cm::IbCm>> hosts_;
  std::vector<CmOwner> owners_;
  std::priority_queue<Incident, std::vector<Incident>, Later> incidents_;
  std::map<std::array<std::byte, 6>, int> repetitions_;
  uint64_t number_ = 0, mads_ = 0, hash_ = 0xcbf29ce484222325u;
  std::string wrong_;
};

}  // namespace

CmScenario cm_scenario(uint64_t seed, uint64_t connects) {
  Random random(seed * 77 + 5);
  CmScenario s;
  s.seed = seed;
  s.connects = connects;
  s.loss = random.chance(0.2) ? 0 : static_cast<double>(random.below(40)) / 100;
  s.duplicate = static_cast<double>(random.below(20)) / 100;
  s.reorder = random.chance(0.3) ? 0 : static_cast<double>(random.below(30)) / 100;
  s.mutate = random.chance(0.5) ? 0 : static_cast<double>(random.below(20)) / 100;
  s.forge = random.chance(0.5) ? 0 : 0.05;
  s.pause_ms = static_cast<int64_t>(random.between(1, 200));
  return s;
}

std::string describe(const CmScenario& s) {
  return "seed " + std::to_string(s.seed) + ": " + std::to_string(s.connects) + " connects, loss " +
         std::to_string(s.loss) + ", duplicate " + std::to_string(s.duplicate) + ", reorder " +
         std::to_string(s.reorder) + ", mutate " + std::to_string(s.mutate) + ", forge " +
         std::to_string(s.forge) + ", pause " + std::to_string(s.pause_ms) + " ms";
}

CmOutcome simulate(const CmScenario& scenario) {
  return Simulation(scenario).run();
}

}  // namespace uroce::sim
