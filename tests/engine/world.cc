// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/engine/world.h"

#include <gtest/gtest.h>

#include <cstring>

namespace uroce::test {

World::World(const engine::EngineConfig& config)
    : a(1, config), b(2, config), storage_(256 << 10), batch_(storage_) {
  set_now(now_);
}

void World::set_now(Time now) {
  now_ = a.now = b.now = now;
}

Pair World::connect(const QpOptions& of_a, const QpOptions& of_b, Psn a_psn, Psn b_psn) {
  Pair pair{a.new_qp(of_a), b.new_qp(of_b)};
  a.to_init(pair.a, of_a);
  b.to_init(pair.b, of_b);
  a.to_rtr(pair.a, of_a, path_to(b), pair.b->qpn(), b_psn, b.gid);
  b.to_rtr(pair.b, of_b, path_to(a), pair.a->qpn(), a_psn, a.gid);
  a.to_rts(pair.a, of_a, a_psn);
  b.to_rts(pair.b, of_b, b_psn);
  return pair;
}

QueuePair* World::datagram_qp(Host& host, const QpOptions& options) {
  QueuePair* qp = host.new_qp(options);
  host.to_init(qp, options);
  host.to_rtr(qp, options, {}, {}, {}, {});
  host.to_rts(qp, options, Psn(0));
  return qp;
}

std::vector<Frame> World::outgoing(Host& host) {
  std::vector<Frame> frames;
  host.engine.take_rings(now_);
  for (bool more = true; more;) {
    batch_.clear();
    more = host.engine.poll_transmit(now_, batch_);
    for (const auto& entry : batch_.entries()) {
      const std::byte* first = batch_.data() + entry.offset;
      frames.push_back({host.slot, entry.path, entry.dest_qpn, 2, {first, first + entry.length}});
    }
  }
  if (tracing) trace.insert(trace.end(), frames.begin(), frames.end());
  return frames;
}

void World::deliver(Host& to, const Frame& frame) {
  engine::RxMeta meta;
  meta.source = frame.from == a.slot ? a.gid : b.gid;
  meta.destination = to.gid;
  meta.traffic_class = frame.traffic_class;
  meta.hop_limit = 64;
  to.engine.on_packet(now_, frame.bytes, meta);
}

void World::inject(Host& to, const wire::Packet& packet, size_t payload_bytes) {
  Frame frame;
  frame.from = &to == &a ? b.slot : a.slot;
  const size_t headers = wire::opcode_info(packet.bth.opcode).header_bytes;
  frame.bytes.resize(headers + payload_bytes + packet.bth.pad);
  wire::write_headers(packet, frame.bytes.data());
  deliver(to, frame);
}

bool World::carry(Host& from, Host& to) {
  const std::vector<Frame> frames = outgoing(from);
  for (Frame frame : frames) {
    if (!wire(frame)) continue;
    deliver(frame.path == path_to(to) ? to : from, frame);
  }
  return !frames.empty();
}

void World::exchange() {
  for (bool moved = true; moved;) {
    moved = carry(a, b);
    moved = carry(b, a) || moved;
  }
}

void World::advance(int64_t ns) {
  const Time end = now_ + ns;
  exchange();
  for (;;) {
    Time next = end;
    for (Host* host : {&a, &b}) {
      const auto deadline = host->engine.next_deadline();
      if (deadline && *deadline < next) next = *deadline;
    }
    if (next > now_) set_now(next);
    a.engine.on_deadline(now_);
    b.engine.on_deadline(now_);
    exchange();
    if (next == end) return;
  }
}

bool World::run_until(const std::function<bool()>& done, int64_t limit_ns) {
  const Time end = now_ + limit_ns;
  exchange();
  while (!done()) {
    Time next = end;
    for (Host* host : {&a, &b}) {
      const auto deadline = host->engine.next_deadline();
      if (deadline && *deadline < next) next = *deadline;
    }
    if (next == end) return false;
    if (next > now_) set_now(next);
    a.engine.on_deadline(now_);
    b.engine.on_deadline(now_);
    exchange();
  }
  return true;
}

std::vector<Completion> World::completions(Host& host, size_t count, int64_t limit_ns) {
  std::vector<Completion> all;
  run_until(
      [&] {
        const auto more = host.poll();
        all.insert(all.end(), more.begin(), more.end());
        return all.size() >= count;
      },
      limit_ns);
  EXPECT_EQ(all.size(), count);
  all.resize(count);
  return all;
}

}  // namespace uroce::test
