// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A short seeded run of what the coverage fuzzer does at length.
#include "tests/fuzz/packet_feeder.h"

#include <gtest/gtest.h>

#include "provider/wire/byte_order.h"
#include "tests/sim/random.h"

namespace uroce::fuzz {
namespace {

#ifdef UROCE_SIM_SHORT
constexpr int kPackets = 20'000;
#else
constexpr int kPackets = 200'000;
#endif

// A record with a packet that is mostly well formed: a known opcode, a key that is right, a length that fits.
std::vector<uint8_t> record(sim::Random& random, const PacketFeeder& feeder) {
  wire::Packet packet;
  const auto queue_pair = static_cast<uint8_t>(random.below(feeder.queue_pairs() + 2));
  // Mostly an opcode of the queue pair's own transport: they come in the order RC, UC, UD, XRC, XRC.
  static constexpr uint8_t kBases[] = {0x00, 0x20, 0x60, 0xa0, 0xa0};
  packet.bth.opcode = static_cast<wire::Opcode>(
      random.chance(0.3) ? random.below(256) : kBases[(queue_pair + 4) % 5] + random.below(0x20));
  packet.bth.ack_request = random.chance(0.5);
  packet.bth.solicited = random.chance(0.2);
  packet.bth.pad = random.chance(0.1) ? static_cast<uint8_t>(random.below(4)) : 0;
  packet.deth = {0x11111111, wire::Qpn(77)};
  packet.reth = {feeder.region().va + random.below(70'000), feeder.region().key,
                 static_cast<uint32_t>(random.below(2048))};
  packet.atomic = {feeder.region().va + random.below(8192) * 8, feeder.region().key, random.next(),
                   random.next()};
  packet.aeth = {static_cast<wire::AethKind>(random.below(4)), static_cast<uint8_t>(random.below(32)), 0};
  packet.xrc_srqn = feeder.xrc_srq_number();
  packet.feth = {1, static_cast<uint8_t>(random.below(3))};
  const size_t headers = packet.info().header_bytes;
  static constexpr size_t kPayloads[] = {0, 256, 4, 256, 255, 1028};
  const size_t payload = random.chance(0.5) ? kPayloads[random.below(6)] : random.below(400);
  std::vector<std::byte> bytes(headers + payload + packet.bth.pad);
  wire::write_headers(packet, bytes.data());
  if (random.chance(0.3) && !bytes.empty()) {
    for (uint64_t i = random.between(1, 3); i-- != 0;)
      bytes[random.below(std::min<size_t>(bytes.size(), 48))] = static_cast<std::byte>(random.below(256));
  }
  if (random.chance(0.1)) bytes.resize(random.below(bytes.size() + 1));
  std::vector<uint8_t> out = {static_cast<uint8_t>(random.below(256)), queue_pair,
                              static_cast<uint8_t>(random.chance(0.8) ? 0 : random.below(256)),
                              static_cast<uint8_t>(bytes.size()), static_cast<uint8_t>(bytes.size() >> 8)};
  for (const std::byte b : bytes) out.push_back(static_cast<uint8_t>(b));
  return out;
}

TEST(PacketFeeder, nothing_a_peer_sends_breaks_the_engine) {
  sim::Random random(20261201);
  PacketFeeder feeder;
  for (int i = 0; i < kPackets; ++i) feeder.feed(record(random, feeder));
  EXPECT_TRUE(feeder.sound());
  // It did not stop at the door: every reason to drop a packet was met, and much was taken.
  for (size_t reason = 0; reason < static_cast<size_t>(engine::PacketDrop::kCount); ++reason) {
    if (reason == static_cast<size_t>(engine::PacketDrop::wrong_source)) continue;
    if (reason == static_cast<size_t>(engine::PacketDrop::bad_pkey)) continue;
    if (reason == static_cast<size_t>(engine::PacketDrop::multicast_not_member)) continue;
    EXPECT_GT(feeder.counters().drops[reason], 0u) << to_string(static_cast<engine::PacketDrop>(reason));
  }
  EXPECT_GT(feeder.counters().rdma_recvs, static_cast<uint64_t>(kPackets) / 1000);
}

TEST(PacketFeeder, every_length_of_every_opcode_is_survived) {
  PacketFeeder feeder;
  for (int opcode = 0; opcode < 256; ++opcode) {
    for (size_t length = 0; length <= 80; ++length) {
      std::vector<uint8_t> input(5 + length, 0xff);
      input[0] = 0x7e;
      input[1] = static_cast<uint8_t>(1 + (static_cast<size_t>(opcode) + length) % feeder.queue_pairs());
      input[2] = 0;
      input[3] = static_cast<uint8_t>(length);
      input[4] = 0;
      if (length > 0) input[5] = static_cast<uint8_t>(opcode);
      if (length > 1) input[6] = static_cast<uint8_t>((length & 3) << 4);
      feeder.feed(input);
    }
  }
  EXPECT_TRUE(feeder.sound());
  EXPECT_GT(feeder.counters().drops[static_cast<size_t>(engine::PacketDrop::parse_error)], 10'000u);
}

}  // namespace
}  // namespace uroce::fuzz
