// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/icrc.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "provider/wire/ip_header.h"
#include "provider/wire/packet.h"

namespace uroce::wire {
namespace {

const Gid kSource = Gid::from_ipv4_be(0x0100000a);
const Gid kDestination = Gid::from_ipv4_be(0x0200000a);

// Bit by bit, over the whole pseudo packet, with nothing precomputed.
uint32_t plain_crc(const std::vector<uint8_t>& bytes) {
  uint32_t r = 0xffffffff;
  for (uint8_t b : bytes) {
    r ^= b;
    for (int i = 0; i < 8; ++i) r = r & 1 ? (r >> 1) ^ 0xedb88320 : r >> 1;
  }
  return ~r;
}

uint32_t plain_icrc(const Gid& source, const Gid& destination, uint16_t port, uint16_t id,
                    const std::vector<std::byte>& packet) {
  std::byte headers[48];
  IpFields ip;
  ip.source = source;
  ip.destination = destination;
  ip.identification = id;
  const size_t n = write_ip_udp(ip, port, kRocePort, packet.size() + kIcrcBytes, headers);
  std::vector<uint8_t> all(8, 0xff);
  for (size_t i = 0; i < n; ++i) all.push_back(std::to_integer<uint8_t>(headers[i]));
  uint8_t* h = all.data() + 8;
  if (source.is_ipv4()) {
    h[1] = h[8] = h[10] = h[11] = 0xff;
  } else {
    h[0] = 0x6f, h[1] = h[2] = h[3] = h[7] = 0xff;
  }
  h[n - 2] = h[n - 1] = 0xff;
  for (std::byte b : packet) all.push_back(std::to_integer<uint8_t>(b));
  all[8 + n + 4] = 0xff;
  return plain_crc(all);
}

std::vector<std::byte> random_packet(std::mt19937& random, size_t bytes) {
  std::vector<std::byte> p(bytes);
  for (std::byte& b : p) b = static_cast<std::byte>(random());
  return p;
}

Gid ipv6(uint8_t last) {
  Gid g;
  g.raw = {0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return g;
}

TEST(Icrc, equals_the_definition_for_ipv4_and_ipv6) {
  std::mt19937 random(7);
  for (size_t bytes = 12; bytes <= 4160; bytes += 4) {
    const auto packet = random_packet(random, bytes);
    const auto port = static_cast<uint16_t>(random());
    const auto id = static_cast<uint16_t>(random());
    EXPECT_EQ(IcrcFlow(kSource, kDestination, port, kRocePort).compute(packet, id),
              plain_icrc(kSource, kDestination, port, id, packet));
    EXPECT_EQ(IcrcFlow(ipv6(1), ipv6(2), port, kRocePort).compute(packet, id),
              plain_icrc(ipv6(1), ipv6(2), port, 0, packet));
  }
}

TEST(Icrc, covers_neither_ecn_bits_nor_the_resv8a_byte) {
  std::mt19937 random(8);
  auto packet = random_packet(random, 64);
  const IcrcFlow flow(kSource, kDestination, 49152, kRocePort);
  const uint32_t before = flow.compute(packet, 0);
  packet[4] = ~packet[4];
  EXPECT_EQ(flow.compute(packet, 0), before);
  packet[5] ^= std::byte{1};
  EXPECT_NE(flow.compute(packet, 0), before);
}

TEST(Icrc, finds_any_identification_from_any_guess) {
  std::mt19937 random(9);
  const IcrcFlow flow(kSource, kDestination, 50000, kRocePort);
  for (int i = 0; i < 5000; ++i) {
    const auto packet = random_packet(random, 12 + 4 * (random() % 1030));
    const auto id = static_cast<uint16_t>(random());
    const auto guess = static_cast<uint16_t>(random());
    const uint32_t icrc = flow.compute(packet, id);
    ASSERT_EQ(flow.solve_identification(packet, icrc, guess), id);
    ASSERT_EQ(flow.solve_identification(packet, icrc, id), id);
  }
}

TEST(Icrc, no_single_bit_error_is_explained_by_an_identification) {
  std::mt19937 random(10);
  const IcrcFlow flow(kSource, kDestination, 50000, kRocePort);
  auto packet = random_packet(random, 12 + 256);
  const uint32_t icrc = flow.compute(packet, 3);
  for (size_t bit = 0; bit < packet.size() * 8; ++bit) {
    if (bit / 8 == 4) continue;  // resv8a is not covered
    packet[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(flow.solve_identification(packet, icrc, 3).has_value()) << bit;
    packet[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
  for (int bit = 0; bit < 32; ++bit)
    EXPECT_FALSE(flow.solve_identification(packet, icrc ^ (1u << bit), 3).has_value());
}

TEST(Icrc, random_damage_passes_about_once_in_65536) {
  std::mt19937 random(11);
  const IcrcFlow flow(kSource, kDestination, 50000, kRocePort);
  const auto packet = random_packet(random, 64);
  int passed = 0;
  for (int i = 0; i < 1'000'000; ++i)
    passed += flow.solve_identification(packet, static_cast<uint32_t>(random()), 0).has_value();
  EXPECT_LT(passed, 40);
  EXPECT_GT(passed, 2);
}

TEST(Icrc, ipv6_has_no_identification_to_explain_an_error) {
  std::mt19937 random(12);
  const IcrcFlow flow(ipv6(1), ipv6(2), 50000, kRocePort);
  const auto packet = random_packet(random, 64);
  const uint32_t icrc = flow.compute(packet, 0);
  EXPECT_EQ(flow.solve_identification(packet, icrc, 5), 0);
  for (int i = 0; i < 100'000; ++i) {
    const auto other = static_cast<uint32_t>(random());
    ASSERT_EQ(flow.solve_identification(packet, other, 0).has_value(), other == icrc);
  }
}

}  // namespace
}  // namespace uroce::wire
