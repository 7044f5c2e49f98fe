// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/ip_header.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace uroce::wire {
namespace {

IpFields ipv4_fields() {
  IpFields ip;
  ip.source = Gid::from_ipv4_be(0x0100000a);
  ip.destination = Gid::from_ipv4_be(0x0200000a);
  ip.traffic_class = 0x6a;
  ip.hop_limit = 17;
  ip.identification = 0x1234;
  return ip;
}

IpFields ipv6_fields() {
  IpFields ip;
  ip.source.raw = {0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  ip.destination.raw = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  ip.traffic_class = 0x6b;
  ip.hop_limit = 3;
  ip.flow_label = 0xabcde;
  return ip;
}

uint32_t ones_sum(const std::byte* p, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i += 2)
    sum += std::to_integer<uint32_t>(p[i]) << 8 | std::to_integer<uint32_t>(p[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST(IpHeader, ipv4_header_is_right) {
  std::byte out[48];
  ASSERT_EQ(write_ip_udp(ipv4_fields(), 50000, 4791, 100, out), 28u);
  EXPECT_EQ(out[0], std::byte{0x45});
  EXPECT_EQ(out[6], std::byte{0x40});  // DF
  EXPECT_EQ(ones_sum(out, 20), 0xffffu);
  EXPECT_EQ(std::to_integer<int>(out[3]), 128);
}

TEST(IpHeader, what_is_written_is_read) {
  for (const IpFields& ip : {ipv4_fields(), ipv6_fields()}) {
    std::vector<std::byte> frame(48);
    frame.resize(write_ip_udp(ip, 50000, 4791, 33, frame.data()));
    frame.resize(frame.size() + 33 + 7);  // 7 bytes of link-layer padding behind
    ParsedFrame parsed;
    ASSERT_TRUE(parse_ip_udp(frame, parsed));
    EXPECT_EQ(parsed.ip.source, ip.source);
    EXPECT_EQ(parsed.ip.destination, ip.destination);
    EXPECT_EQ(parsed.ip.traffic_class, ip.traffic_class);
    EXPECT_EQ(parsed.ip.hop_limit, ip.hop_limit);
    EXPECT_EQ(parsed.ip.flow_label, ip.flow_label);
    EXPECT_EQ(parsed.ip.identification, ip.identification);
    EXPECT_EQ(parsed.source_port, 50000);
    EXPECT_EQ(parsed.destination_port, 4791);
    EXPECT_EQ(parsed.udp_payload.size(), 33u);
  }
}

TEST(IpHeader, grh_area_of_ipv4_stands_in_the_second_half) {
  std::array<std::byte, kGrhBytes> area;
  area.fill(std::byte{0x77});
  write_grh_area(ipv4_fields(), 64, area);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(area[i], std::byte{0x77});
  EXPECT_EQ(area[20], std::byte{0x45});
  EXPECT_EQ(ones_sum(area.data() + 20, 20), 0xffffu);
}

TEST(IpHeader, grh_area_of_ipv6_is_the_header) {
  std::array<std::byte, kGrhBytes> area;
  write_grh_area(ipv6_fields(), 64, area);
  EXPECT_EQ(area[0], std::byte{0x66});
  EXPECT_EQ(area[5], std::byte{64});
  EXPECT_EQ(area[7], std::byte{3});
}

TEST(IpHeader, fragments_and_other_protocols_are_refused) {
  std::vector<std::byte> frame(128);
  write_ip_udp(ipv4_fields(), 1, 4791, 40, frame.data());
  ParsedFrame parsed;
  ASSERT_TRUE(parse_ip_udp(frame, parsed));
  auto more = frame;
  more[6] = std::byte{0x20};  // more fragments
  EXPECT_FALSE(parse_ip_udp(more, parsed));
  more = frame;
  more[7] = std::byte{1};  // offset
  EXPECT_FALSE(parse_ip_udp(more, parsed));
  more = frame;
  more[9] = std::byte{6};  // TCP
  EXPECT_FALSE(parse_ip_udp(more, parsed));
  more = frame;
  more[24] = std::byte{0xff};  // UDP length beyond the packet
  EXPECT_FALSE(parse_ip_udp(more, parsed));
}

TEST(IpHeader, random_bytes_never_read_outside) {
  std::mt19937 random(3);
  for (int i = 0; i < 200'000; ++i) {
    std::vector<std::byte> bytes(random() % 72);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    if (bytes.size() > 9) {
      bytes[0] = random() & 1 ? std::byte{0x45} : std::byte{0x60};
      bytes[2] = bytes[6] = std::byte{0};
      bytes[bytes[0] == std::byte{0x60} ? 6 : 9] = std::byte{17};
    }
    ParsedFrame parsed;
    if (!parse_ip_udp(bytes, parsed)) continue;
    ASSERT_LE(parsed.udp_payload.data() + parsed.udp_payload.size(), bytes.data() + bytes.size());
  }
}

}  // namespace
}  // namespace uroce::wire
