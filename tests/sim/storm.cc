// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/sim/storm.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>

namespace uroce::sim {

namespace {

using engine::Access;
using engine::Completion;
using engine::SgEntry;
using engine::Time;
using engine::WcOpcode;
using engine::WcStatus;
using engine::WrOpcode;
using test::QpOptions;
using test::QpState;
using test::QpType;
using test::Region;

constexpr uint32_t kRegionBytes = 64 << 10;

// One queue pair and what it owes its program.
struct Member {
  test::QueuePair* qp = nullptr;
  QpOptions options;
  std::deque<uint64_t> sends;
  std::deque<uint64_t> receives;
  uint32_t peer = 0;  // index of the member it is connected to, at the other host
};

struct Side {
  test::Host* host = nullptr;
  std::vector<Member> members;
  std::vector<Region> regions;
  std::vector<uint32_t> windows;
  engine::SharedReceiveQueue* srq = nullptr;
  engine::SharedReceiveQueue* xrc_srq = nullptr;
};

class Storm {
 public:
  explicit Storm(uint64_t seed);
  StormOutcome run(uint64_t steps);

 private:
  void bring_up(Side& side, Side& other, Member& member);
  void wake(Side& side);
  void act(Side& side);
  void post(Side& side, Member& member);
  void fill_request(Side& side, Side& other, Member& member, engine::SendRequest& request);
  void receive(Side& side, Member& member);
  void change(Side& side, Member& member);
  void start_again(Side& side, Member& member);
  void replace_region(Side& side);
  void transmit(Side& side);
  void poll(Side& side);
  void on_completion(Side& side, const Completion& c);
  void finish();
  Side& other(Side& side) { return &side == &sides_[0] ? sides_[1] : sides_[0]; }
  SgEntry some_sge(Side& side, uint32_t length);
  void mix(uint64_t value) { outcome_.hash = (outcome_.hash ^ value) * 0x100000001b3u; }

  static Faults faults() {
    Faults f;
    f.loss = 0.02;
    f.duplicate = 0.02;
    f.reorder = 0.05;
    f.mutate = 0.05;
    f.congestion = 0.02;
    return f;
  }

  Random random_;
  Network network_;
  test::World world_;
  Side sides_[2];
  Time now_{1'000'000'000};
  uint64_t next_id_ = 1;
  std::vector<std::byte> storage_;
  engine::TxBatch batch_;
  std::vector<test::Frame> arrived_;
  StormOutcome outcome_;
};

Storm::Storm(uint64_t seed)
    : random_(seed), network_(faults(), random_), storage_(64 << 10), batch_(storage_) {
  static constexpr QpType kTypes[2][8] = {{QpType::rc, QpType::rc, QpType::rc, QpType::rc, QpType::uc,
                                           QpType::ud, QpType::xrc_initiator, QpType::xrc_target},
                                          {QpType::rc, QpType::rc, QpType::rc, QpType::rc, QpType::uc,
                                           QpType::ud, QpType::xrc_target, QpType::xrc_initiator}};
  sides_[0].host = &world_.a;
  sides_[1].host = &world_.b;
  for (int s = 0; s < 2; ++s) {
    Side& side = sides_[s];
    for (int i = 0; i < 4; ++i) side.regions.push_back(side.host->region(kRegionBytes));
    for (int i = 0; i < 3; ++i) {
      side.windows.push_back(side.host->new_key());
      side.host->engine.register_window(side.windows.back(), test::kPd, i != 0);
    }
    side.srq = side.host->new_srq(32);
    side.xrc_srq = side.host->new_srq(32, true, 5);
    for (uint32_t i = 0; i < 8; ++i) {
      Member member;
      member.options.type = kTypes[s][i];
      member.options.mtu = static_cast<test::PathMtu>(1 + (seed + i / 2) % 5);
      member.options.xrc_domain = 5;
      member.options.timeout = 10;
      member.options.retry_cnt = static_cast<uint8_t>(random_.below(3));
      member.options.rnr_retry = static_cast<uint8_t>(random_.below(8));
      member.options.min_rnr_timer = 1;
      member.options.max_rd_atomic = static_cast<uint8_t>(random_.below(5));
      member.options.max_dest_rd_atomic = static_cast<uint8_t>(random_.below(5));
      member.options.capabilities = {16, 16, 4, 4, 64};
      if (i == 1) member.options.srq = side.srq;
      member.peer = i;
      member.qp = side.host->new_qp(member.options);
      side.members.push_back(member);
    }
  }
  for (Side& side : sides_) {
    for (Member& member : side.members) bring_up(side, other(side), member);
  }
}

void Storm::bring_up(Side& side, Side& far, Member& member) {
  test::Host& host = *side.host;
  host.now = now_;
  host.to_init(member.qp, member.options);
  host.to_rtr(member.qp, member.options, world_.path_to(*far.host), far.members[member.peer].qp->qpn(),
              wire::Psn(0xfffff0), far.host->gid);
  host.to_rts(member.qp, member.options, wire::Psn(0xfffff0));
}

// Mostly memory that is there; sometimes a dead key or a piece over the edge.
SgEntry Storm::some_sge(Side& side, uint32_t length) {
  const Region& region = side.regions[random_.below(side.regions.size())];
  const uint64_t offset = random_.below(kRegionBytes);
  SgEntry sge{region.va + offset, length, region.key};
  if (!random_.chance(0.01))
    sge.length = std::min<uint32_t>(length, kRegionBytes - static_cast<uint32_t>(offset));
  if (random_.chance(0.003)) sge.lkey = static_cast<uint32_t>(random_.next());
  return sge;
}

void Storm::fill_request(Side& side, Side& far, Member& member, engine::SendRequest& request) {
  const Region& remote = far.regions[random_.below(far.regions.size())];
  request.remote_va = remote.va + random_.below(kRegionBytes);
  request.rkey = random_.chance(0.005)  ? static_cast<uint32_t>(random_.next())
                 : random_.chance(0.02) ? far.windows[random_.below(far.windows.size())]
                                        : remote.key;
  if (random_.chance(0.99)) request.remote_va &= ~uint64_t{7};
  request.compare = random_.next();
  request.swap_or_add = random_.next();
  request.invalidate_rkey = far.windows[random_.below(far.windows.size())];
  request.xrc_srqn = random_.chance(0.95) ? far.xrc_srq->number() : static_cast<uint32_t>(random_.below(200));
  request.ud_path = world_.path_to(*far.host);
  request.ud_qpn = far.members[member.peer].qp->qpn();
  request.ud_qkey = random_.chance(0.95) ? member.options.qkey : 1;
  request.flush_length = 64;
  request.flush_placement = 1;
  if (request.opcode == WrOpcode::bind_window || request.opcode == WrOpcode::local_invalidate) {
    uint32_t& window = side.windows[random_.below(side.windows.size())];
    const Region& region = side.regions[random_.below(side.regions.size())];
    request.invalidate_rkey = window;
    request.bind = {window,
                    window + 1,
                    region.key,
                    region.va,
                    random_.below(kRegionBytes + 10),
                    Access::remote_write | Access::remote_read};
    if (request.opcode == WrOpcode::bind_window && random_.chance(0.5))
      window = (window & ~0xffu) | ((window + 1) & 0xff);
  }
}

void Storm::post(Side& side, Member& member) {
  engine::SendRequest request;
  request.wr_id = next_id_++;
  const bool odd = random_.chance(0.03);
  request.opcode = static_cast<WrOpcode>(odd ? random_.below(12) : random_.below(8));
  request.flags.signaled = true;
  request.flags.solicited = random_.chance(0.2);
  request.flags.fence = random_.chance(0.1);
  std::array<SgEntry, 3> sges;
  const size_t pieces = random_.below(4);
  for (size_t i = 0; i < pieces; ++i) {
    const uint32_t length = random_.chance(0.7) ? 64 : 9000;
    sges[i] = some_sge(side, static_cast<uint32_t>(random_.below(length)));
  }
  const bool atomic = request.opcode == WrOpcode::compare_swap || request.opcode == WrOpcode::fetch_add;
  if (atomic) sges[0] = {side.regions[0].va, 8, side.regions[0].key};
  request.sges = std::span(sges.data(), atomic ? 1 : pieces);
  fill_request(side, other(side), member, request);
  if (side.host->post(member.qp, request) != 0) return;
  ++outcome_.posted;
  member.sends.push_back(request.wr_id);
}

void Storm::receive(Side& side, Member& member) {
  const uint64_t id = next_id_++;
  const uint64_t shared = random_.below(12);
  std::vector<SgEntry> sges;
  for (uint64_t i = random_.below(3); i-- != 0;)
    sges.push_back(some_sge(side, static_cast<uint32_t>(random_.below(9000))));
  if (shared == 0 || shared == 1) {
    side.host->receive(shared == 0 ? side.srq : side.xrc_srq, id, sges);
  } else if (side.host->receive(member.qp, id, sges) == 0) {
    member.receives.push_back(id);
  }
}

void Storm::replace_region(Side& side) {
  Region& region = side.regions[random_.below(side.regions.size())];
  if (side.host->engine.deregister_mr(region.key) != 0) return;  // windows are bound to it
  side.host->memory.unmap(region.va);                            // whoever touches it now is caught
  region = side.host->region(kRegionBytes);
}

// The program gives a queue pair up, or takes one that failed from the beginning again.
void Storm::change(Side& side, Member& member) {
  side.host->now = now_;
  if (random_.chance(0.01)) {
    side.host->modify(member.qp, QpState::error);
    return;
  }
  if (member.qp->state() == QpState::sqe) {
    engine::QpAttributes a;
    a.state = QpState::rts;
    side.host->engine.modify_qp(now_, member.qp, a, engine::QpMask::state);
  }
  if (member.qp->state() != QpState::error) return;
  ++outcome_.resets;
  start_again(side, member);
  Side& far = other(side);
  start_again(far, far.members[member.peer]);
}

void Storm::start_again(Side& side, Member& member) {
  poll(side);
  side.host->now = now_;
  side.host->modify(member.qp, QpState::reset);
  side.host->cq->purge(member.qp->qpn().value());
  member.sends.clear();
  member.receives.clear();
  bring_up(side, other(side), member);
}

void Storm::act(Side& side) {
  for (uint64_t i = random_.below(4); i-- != 0;) {
    Member& member = side.members[random_.below(side.members.size())];
    if (random_.chance(0.4)) {
      receive(side, member);
    } else {
      post(side, member);
    }
  }
  if (random_.chance(0.2)) change(side, side.members[random_.below(side.members.size())]);
  if (random_.chance(0.002)) replace_region(side);
  if (random_.chance(0.01)) {
    side.host->engine.modify_srq(now_, side.srq, static_cast<uint32_t>(random_.below(20)));
  }
}

void Storm::transmit(Side& side) {
  side.host->engine.take_rings(now_);
  for (bool more = true; more;) {
    batch_.clear();
    more = side.host->engine.poll_transmit(now_, batch_);
    for (const auto& entry : batch_.entries()) {
      const std::byte* first = batch_.data() + entry.offset;
      ++outcome_.packets;
      mix(entry.length ^ static_cast<uint64_t>(now_.ns));
      network_.send(now_, other(side).host->slot,
                    {side.host->slot, entry.path, entry.dest_qpn, 2, {first, first + entry.length}});
    }
  }
}

void Storm::on_completion(Side& side, const Completion& c) {
  mix(c.wr_id ^ static_cast<uint64_t>(c.status) << 40);
  const auto member = std::find_if(side.members.begin(), side.members.end(),
                                   [&c](const Member& m) { return m.qp->qpn().value() == c.qp_num; });
  if (member == side.members.end()) {
    outcome_.wrong = "a completion of no queue pair";
    return;
  }
  (c.status == WcStatus::success ? outcome_.succeeded : outcome_.failed)++;
  // Receives of shared queues are not kept in order.
  const bool mine = !member->receives.empty() && member->receives.front() == c.wr_id;
  if (mine) {
    member->receives.pop_front();
  } else if (!member->sends.empty() && member->sends.front() == c.wr_id) {
    member->sends.pop_front();
  } else if (member->options.srq == nullptr && c.srq_number == 0) {
    outcome_.wrong = "request " + std::to_string(c.wr_id) + " completed twice or out of order, status " +
                     std::to_string(static_cast<int>(c.status)) + "\n" +
                     side.host->engine.snapshot(member->qp);
  }
}

void Storm::poll(Side& side) {
  Completion batch[16];
  while (const uint32_t n = side.host->cq->poll(16, batch)) {
    for (uint32_t i = 0; i < n; ++i) on_completion(side, batch[i]);
  }
  engine::Event event;
  while (side.host->engine.poll_event(event)) mix(event.async);
}

void Storm::wake(Side& side) {
  side.host->now = now_;
  arrived_.clear();
  network_.take_arrived(now_, side.host->slot, arrived_);
  for (const test::Frame& frame : arrived_) {
    engine::RxMeta meta;
    meta.source = other(side).host->gid;
    meta.destination = side.host->gid;
    meta.traffic_class = frame.traffic_class;
    side.host->engine.on_packet(now_, frame.bytes, meta);
  }
  side.host->engine.on_deadline(now_);
  transmit(side);
  poll(side);
}

// Everything is given up: what is still owed must come now.
void Storm::finish() {
  for (Side& side : sides_) {
    side.host->engine.fail_all(now_);
    side.host->engine.take_rings(now_);
    transmit(side);
    poll(side);
    for (const Member& member : side.members) {
      if (member.sends.empty() && member.receives.empty()) continue;
      outcome_.wrong = "never completed: " + std::to_string(member.sends.size()) + " sends, " +
                       std::to_string(member.receives.size()) + " receives\n" +
                       side.host->engine.snapshot(member.qp);
    }
    if (side.host->memory.faults() != 0) outcome_.wrong = "memory outside every region was touched";
  }
}

StormOutcome Storm::run(uint64_t steps) {
  for (uint64_t i = 0; i < steps && outcome_.wrong.empty(); ++i) {
    for (Side& side : sides_) {
      wake(side);
      act(side);
      transmit(side);
    }
    now_.ns += random_.chance(0.001) ? 30'000'000 : static_cast<int64_t>(random_.between(500, 8000));
  }
  if (outcome_.wrong.empty()) finish();
  return outcome_;
}

}  // namespace

StormOutcome storm(uint64_t seed, uint64_t steps) {
  return Storm(seed).run(steps);
}

}  // namespace uroce::sim
