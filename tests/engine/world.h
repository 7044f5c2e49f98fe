// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Two hosts, a wire between them and a clock that is moved by hand. Nothing waits: a test says what is lost
// and how late it is.
#pragma once

#include <functional>
#include <vector>

#include "tests/engine/host.h"

namespace uroce::test {

// One packet on its way.
struct Frame {
  uint32_t from = 0;  // slot of the sender
  PathId path;
  Qpn dest_qpn;
  uint8_t traffic_class = 2;
  std::vector<std::byte> bytes;

  wire::Packet parse() const {
    wire::Packet packet;
    wire::parse_packet(bytes, packet);
    return packet;
  }
};

struct Pair {
  QueuePair* a = nullptr;
  QueuePair* b = nullptr;
};

class World {
 public:
  explicit World(const engine::EngineConfig& config = {});

  // Both ends of one connection in RTS. The first PSN of each side is near the wrap-around unless said
  // otherwise.
  Pair connect(const QpOptions& options = {}) { return connect(options, options); }
  Pair connect(const QpOptions& of_a, const QpOptions& of_b, Psn a_psn = Psn(0xfffffa),
               Psn b_psn = Psn(0x123));
  QueuePair* datagram_qp(Host& host, const QpOptions& options = {QpType::ud});
  PathId path_to(const Host& host) const { return PathId{host.slot}; }

  // Carries packets to and fro until both are silent. Time stands still.
  void exchange();
  // Time passes; deadlines on the way are kept.
  void advance(int64_t ns);
  // Time passes and nothing else.
  void skip(int64_t ns) { set_now(now_ + ns); }
  // Until `done`, letting time pass from deadline to deadline, for at most `limit_ns`. False: it did not
  // come.
  bool run_until(const std::function<bool()>& done, int64_t limit_ns = 60'000'000'000);
  // As above until `host`'s own CQ holds `count` completions; returns them.
  std::vector<Completion> completions(Host& host, size_t count, int64_t limit_ns = 60'000'000'000);

  // Packets that `host` has to send now.
  std::vector<Frame> outgoing(Host& host);
  void deliver(Host& to, const Frame& frame);
  // A packet of an injector: to `to`, as if `from`'s host had sent it.
  void inject(Host& to, const wire::Packet& packet, size_t payload_bytes = 0);

  Time now() const { return now_; }

  Host a;
  Host b;
  // Decides about every packet; false: it is lost. May change it.
  std::function<bool(Frame&)> wire = [](Frame&) { return true; };
  // Packets sent, in order, when `tracing`.
  bool tracing = false;
  std::vector<Frame> trace;

 private:
  void set_now(Time now);
  bool carry(Host& from, Host& to);

  Time now_{1'000'000'000};
  std::vector<std::byte> storage_;
  engine::TxBatch batch_;
};

}  // namespace uroce::test
