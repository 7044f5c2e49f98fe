// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/sim/simulation.h"

#include <algorithm>

namespace uroce::sim {

using engine::Time;

namespace {

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario);
  Outcome run();

 private:
  struct Side {
    test::Host* host;
    int64_t asleep_until = 0;
    std::vector<std::unique_ptr<ReceivePool>> pools;
  };

  void connect(uint32_t number);
  ReceivePool* pool_of(Side& side, test::QueuePair* qp, engine::SharedReceiveQueue* srq);
  void wake(Side& side);
  void transmit(Side& side);
  void use_completions(Side& side);
  bool done() const;
  int64_t next_event() const;
  std::string verdict();
  void mix(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3u; }
  void mix(const void* data, size_t bytes);

  Scenario scenario_;
  Random random_;
  Network network_;
  test::World world_;
  Side sides_[2];
  test::Region shared_words_[2];
  std::vector<std::unique_ptr<Flow>> flows_;
  Time now_{1'000'000'000};
  std::vector<test::Frame> arrived_;
  std::vector<std::byte> storage_;
  engine::TxBatch batch_;
  uint64_t hash_ = 0xcbf29ce484222325u;
  uint64_t packets_ = 0;
};

Simulation::Simulation(const Scenario& scenario)
    : scenario_(scenario),
      random_(scenario.seed),
      network_(scenario_.faults, random_),
      storage_(256 << 10),
      batch_(storage_) {
  sides_[0].host = &world_.a;
  sides_[1].host = &world_.b;
  for (int i = 0; i < 2; ++i) shared_words_[i] = sides_[i].host->region(8);
  for (uint32_t i = 0; i < scenario.pairs; ++i) connect(i);
}

ReceivePool* Simulation::pool_of(Side& side, test::QueuePair* qp, engine::SharedReceiveQueue* srq) {
  const uint32_t buffers = srq != nullptr ? 32 : scenario_.qp.capabilities.max_recv_wr / 4;
  side.pools.push_back(std::make_unique<ReceivePool>(*side.host, qp, srq, buffers, scenario_.flow.max_bytes));
  return side.pools.back().get();
}

void Simulation::connect(uint32_t number) {
  test::QpOptions options[2] = {scenario_.qp, scenario_.qp};
  const bool shared = number < scenario_.shared_receive_pairs;
  for (int i = 0; i < 2; ++i) {
    options[i].signal_all = false;
    if (shared) options[i].srq = sides_[i].host->new_srq(64);
  }
  const auto first = [this] { return wire::Psn(static_cast<uint32_t>(0xffff80 + random_.below(256))); };
  const wire::Psn a_psn = first();
  const wire::Psn b_psn = first();
  const test::Pair pair = world_.connect(options[0], options[1], a_psn, b_psn);
  ReceivePool* at_a = pool_of(sides_[0], pair.a, options[0].srq);
  ReceivePool* at_b = pool_of(sides_[1], pair.b, options[1].srq);
  flows_.push_back(std::make_unique<Flow>(world_.a, pair.a, world_.b, pair.b, *at_b, shared_words_[1],
                                          scenario_.flow, 2 * number + 1));
  flows_.push_back(std::make_unique<Flow>(world_.b, pair.b, world_.a, pair.a, *at_a, shared_words_[0],
                                          scenario_.flow, 2 * number + 2));
}

void Simulation::mix(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (; bytes >= 8; p += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  for (; bytes != 0; ++p, --bytes) mix(*p);
}

void Simulation::transmit(Side& side) {
  const uint32_t other = side.host == &world_.a ? world_.b.slot : world_.a.slot;
  side.host->engine.take_rings(now_);
  for (bool more = true; more;) {
    batch_.clear();
    more = side.host->engine.poll_transmit(now_, batch_);
    for (const auto& entry : batch_.entries()) {
      const std::byte* first = batch_.data() + entry.offset;
      mix(static_cast<uint64_t>(now_.ns));
      mix(first, entry.length);
      ++packets_;
      network_.send(now_, other,
                    {side.host->slot, entry.path, entry.dest_qpn, 2, {first, first + entry.length}});
    }
  }
}

void Simulation::use_completions(Side& side) {
  const bool at_a = side.host == &world_.a;
  engine::Completion batch[16];
  while (const uint32_t n = side.host->cq->poll(16, batch)) {
    for (uint32_t i = 0; i < n; ++i) {
      const engine::Completion& c = batch[i];
      mix(c.wr_id ^ static_cast<uint64_t>(c.status) << 56 ^ c.qp_num);
      const bool received = static_cast<uint8_t>(c.opcode) >= static_cast<uint8_t>(engine::WcOpcode::recv);
      for (size_t f = at_a ? 0 : 1; f < flows_.size(); f += 2) {
        // The flow that leaves from here, and its partner, which arrives here.
        if (!received && flows_[f]->from_qpn() == c.qp_num) flows_[f]->on_sent(c);
        Flow& partner = *flows_[f ^ 1];
        if (received && partner.to_qpn() == c.qp_num) partner.on_received(c);
      }
    }
  }
}

// The host's program runs once: packets, timers, completions, new work.
void Simulation::wake(Side& side) {
  if (now_.ns < side.asleep_until) return;
  if (random_.chance(scenario_.stall)) {
    side.asleep_until =
        now_.ns + static_cast<int64_t>(random_.below(static_cast<uint64_t>(scenario_.stall_ns)));
    return;
  }
  side.host->now = now_;
  arrived_.clear();
  network_.take_arrived(now_, side.host->slot, arrived_);
  for (const test::Frame& frame : arrived_) {
    engine::RxMeta meta;
    meta.source = frame.from == world_.a.slot ? world_.a.gid : world_.b.gid;
    meta.destination = side.host->gid;
    meta.traffic_class = frame.traffic_class;
    side.host->engine.on_packet(now_, frame.bytes, meta);
  }
  side.host->engine.on_deadline(now_);
  transmit(side);
  use_completions(side);
  for (auto& pool : side.pools) pool->refill(random_, scenario_.flow.eager_receives);
  for (size_t f = side.host == &world_.a ? 0 : 1; f < flows_.size(); f += 2) flows_[f]->post_some(random_);
  transmit(side);
  engine::Event event;
  while (side.host->engine.poll_event(event)) mix(event.id ^ event.async << 24);
}

int64_t Simulation::next_event() const {
  int64_t next = INT64_MAX;
  for (const Side& side : sides_) {
    int64_t mine = network_.next_arrival(side.host->slot);
    if (const auto deadline = side.host->engine.next_deadline()) mine = std::min(mine, deadline->ns);
    next = std::min(next, std::max(mine, side.asleep_until));
  }
  return next;
}

bool Simulation::done() const {
  return std::all_of(flows_.begin(), flows_.end(), [](const auto& flow) { return flow->done(); });
}

std::string Simulation::verdict() {
  std::string wrong;
  std::vector<uint64_t> values[2];
  for (size_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = *flows_[i];
    flow.check_untouched();
    if (!flow.wrong().empty())
      wrong += "flow " + std::to_string(i) + ": " + flow.wrong() + "\n  " + flow.state() + "\n";
    values[i % 2].insert(values[i % 2].end(), flow.shared_values().begin(), flow.shared_values().end());
  }
  if (!wrong.empty()) return wrong;
  // All flows of one direction counted in one word: each value was seen once.
  for (auto& seen : values) {
    std::sort(seen.begin(), seen.end());
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] != i) return "the shared counter gave a value twice or left one out";
    }
  }
  if (world_.a.memory.faults() + world_.b.memory.faults() != 0)
    return "memory outside every region was touched";
  return {};
}

Outcome Simulation::run() {
  Outcome outcome;
  const int64_t start = now_.ns;
  // A program with nothing to wait for looks again after a while, as one that posts receives late does.
  constexpr int64_t kIdleNs = 100'000;
  while (!done() && now_.ns - start < scenario_.limit_ns) {
    for (Side& side : sides_) wake(side);
    const bool broken =
        std::any_of(flows_.begin(), flows_.end(), [](const auto& flow) { return !flow->wrong().empty(); });
    if (broken) break;
    now_.ns = std::max(now_.ns + 200, std::min(next_event(), now_.ns + kIdleNs));
  }
  outcome.wrong = verdict();
  if (outcome.wrong.empty() && !done()) {
    outcome.wrong = "not finished in time\n";
    for (const auto& flow : flows_) outcome.wrong += flow->state() + "\n";
  }
  for (const auto& flow : flows_) outcome.operations += flow->finished();
  outcome.hash = hash_;
  outcome.packets = packets_;
  outcome.lost = network_.lost();
  outcome.retransmitted =
      world_.a.engine.counters().retransmitted_pkts + world_.b.engine.counters().retransmitted_pkts;
  outcome.virtual_ns = now_.ns - start;
  return outcome;
}

}  // namespace

Outcome simulate(const Scenario& scenario) {
  return Simulation(scenario).run();
}

Scenario moderate_scenario(uint64_t seed, uint64_t operations) {
  Random random(seed ^ 0x5ca1ab1e);
  Scenario s;
  s.seed = seed;
  const double badness[] = {0, 0.001, 0.005, 0.02};
  const auto some = [&] { return badness[random.below(4)]; };
  s.faults.loss = some();
  s.faults.duplicate = some();
  s.faults.reorder = some();
  s.faults.corrupt = some() / 2;
  s.faults.congestion = some();
  s.faults.buffer_packets = random.chance(0.5) ? 256 : 1024;
  s.stall = random.chance(0.5) ? 0.0005 : 0;
  s.qp.mtu = static_cast<test::PathMtu>(random.between(1, 5));
  s.qp.max_rd_atomic = s.qp.max_dest_rd_atomic = static_cast<uint8_t>(random.between(1, 16));
  s.qp.min_rnr_timer = static_cast<uint8_t>(random.between(1, 12));
  s.qp.capabilities = {64, 64, 4, 4, 128};
  s.pairs = static_cast<uint32_t>(random.between(1, 5));
  s.shared_receive_pairs = static_cast<uint32_t>(random.below(s.pairs + 1));
  s.flow.depth = random.chance(0.5) ? 16 : 48;
  s.flow.max_bytes = random.chance(0.2) ? 65536 : 12000;
  s.flow.eager_receives = random.chance(0.3) ? 0.6 : 0.95;
  s.flow.operations = std::max<uint64_t>(operations / (2 * s.pairs), 1);
  return s;
}

std::string describe(const Scenario& s) {
  const auto field = [](const char* name, double value) {
    return std::string(" ") + name + " " + std::to_string(value);
  };
  return "seed " + std::to_string(s.seed) + ":" + field("loss", s.faults.loss) +
         field("duplicate", s.faults.duplicate) + field("reorder", s.faults.reorder) +
         field("corrupt", s.faults.corrupt) + field("stall", s.stall) + " mtu " +
         std::to_string(engine::bytes_of(s.qp.mtu)) + " pairs " + std::to_string(s.pairs) + " with SRQ " +
         std::to_string(s.shared_receive_pairs) + " depth " + std::to_string(s.flow.depth) + " reads " +
         std::to_string(s.qp.max_rd_atomic) + " max bytes " + std::to_string(s.flow.max_bytes) +
         " operations " + std::to_string(s.flow.operations) + " a flow";
}

}  // namespace uroce::sim
