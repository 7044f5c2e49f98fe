// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/sim/network.h"

#include <algorithm>

namespace uroce::sim {

namespace {
constexpr int64_t kDelayNs = 5'000;
constexpr double kNsPerByte = 0.8;  // 10 Gbit/s
constexpr int64_t kNsPerPacket = 100;
}  // namespace

void Network::launch(int64_t at, uint32_t to, test::Frame frame) {
  queues_[to].push({at, number_++, std::move(frame)});
}

void Network::send(engine::Time now, uint32_t to, test::Frame&& frame) {
  int64_t& busy = busy_until_[to];
  busy = std::max(busy, now.ns) + kNsPerPacket +
         static_cast<int64_t>(static_cast<double>(frame.bytes.size()) * kNsPerByte);
  int64_t at = busy + kDelayNs;
  if (random_.chance(faults_.loss) || random_.chance(faults_.corrupt)) {
    ++lost_;
    return;
  }
  if (random_.chance(faults_.congestion)) frame.traffic_class |= 3;
  if (random_.chance(faults_.duplicate)) launch(at + static_cast<int64_t>(random_.below(50'000)), to, frame);
  if (random_.chance(faults_.mutate)) {
    test::Frame twisted = frame;
    mutate(twisted);
    launch(at, to, std::move(twisted));
  }
  if (random_.chance(faults_.reorder))
    at += static_cast<int64_t>(random_.below(static_cast<uint64_t>(faults_.late_ns)));
  launch(at, to, std::move(frame));
}

void Network::mutate(test::Frame& frame) {
  const uint64_t changes = random_.between(1, 4);
  for (uint64_t i = 0; i < changes; ++i) {
    if (frame.bytes.empty()) return;
    // Mostly in the headers: that is where it hurts.
    const size_t reach = random_.chance(0.8) ? std::min<size_t>(frame.bytes.size(), 40) : frame.bytes.size();
    std::byte& byte = frame.bytes[random_.below(reach)];
    switch (random_.below(4)) {
      case 0: byte ^= static_cast<std::byte>(1u << random_.below(8)); break;
      case 1: byte = static_cast<std::byte>(random_.below(256)); break;
      case 2: frame.bytes.resize(random_.below(frame.bytes.size() + 1)); break;
      default: byte = std::byte{0xff}; break;
    }
  }
}

void Network::take_arrived(engine::Time now, uint32_t host, std::vector<test::Frame>& out) {
  auto& queue = queues_[host];
  uint32_t taken = 0;
  while (!queue.empty() && queue.top().at <= now.ns) {
    if (taken++ < faults_.buffer_packets) {
      out.push_back(queue.top().frame);
    } else {
      ++lost_;
    }
    queue.pop();
  }
}

}  // namespace uroce::sim
