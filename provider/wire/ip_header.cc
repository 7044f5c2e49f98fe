// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/ip_header.h"

#include <cstring>

#include "provider/wire/byte_order.h"

namespace uroce::wire {
namespace {

constexpr uint8_t kUdpProtocol = 17;
constexpr uint16_t kDontFragment = 0x4000;

uint16_t ipv4_checksum(const std::byte* header, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i += 2) sum += load_be16(header + i);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void write_ipv4(const IpFields& ip, size_t payload_bytes, std::byte* p) {
  p[0] = std::byte{0x45};
  p[1] = std::byte{ip.traffic_class};
  store_be16(p + 2, static_cast<uint16_t>(kIpv4Bytes + payload_bytes));
  store_be16(p + 4, ip.identification);
  store_be16(p + 6, kDontFragment);
  p[8] = std::byte{ip.hop_limit};
  p[9] = std::byte{kUdpProtocol};
  store_be16(p + 10, 0);
  std::memcpy(p + 12, ip.source.raw.data() + 12, 4);
  std::memcpy(p + 16, ip.destination.raw.data() + 12, 4);
  store_be16(p + 10, ipv4_checksum(p, kIpv4Bytes));
}

void write_ipv6(const IpFields& ip, size_t payload_bytes, std::byte* p) {
  store_be32(p, 0x60000000u | uint32_t{ip.traffic_class} << 20 | (ip.flow_label & 0xfffff));
  store_be16(p + 4, static_cast<uint16_t>(payload_bytes));
  p[6] = std::byte{kUdpProtocol};
  p[7] = std::byte{ip.hop_limit};
  std::memcpy(p + 8, ip.source.raw.data(), 16);
  std::memcpy(p + 24, ip.destination.raw.data(), 16);
}

// Header bytes, or 0 when this is no whole, unfragmented UDP packet without extension headers.
size_t parse_ipv4(std::span<const std::byte> packet, IpFields& ip, size_t& total) {
  const std::byte* p = packet.data();
  if (packet.size() < kIpv4Bytes) return 0;
  const size_t header = size_t{std::to_integer<uint8_t>(p[0]) & 0xfu} * 4;
  total = load_be16(p + 2);
  if (header < kIpv4Bytes || total > packet.size() || total < header) return 0;
  if ((load_be16(p + 6) & 0x3fff) != 0 || p[9] != std::byte{kUdpProtocol}) return 0;
  uint32_t source, destination;
  std::memcpy(&source, p + 12, 4);
  std::memcpy(&destination, p + 16, 4);
  ip.source = Gid::from_ipv4_be(source);
  ip.destination = Gid::from_ipv4_be(destination);
  ip.traffic_class = std::to_integer<uint8_t>(p[1]);
  ip.hop_limit = std::to_integer<uint8_t>(p[8]);
  ip.identification = load_be16(p + 4);
  return header;
}

size_t parse_ipv6(std::span<const std::byte> packet, IpFields& ip, size_t& total) {
  const std::byte* p = packet.data();
  if (packet.size() < kIpv6Bytes) return 0;
  total = kIpv6Bytes + load_be16(p + 4);
  if (total > packet.size() || p[6] != std::byte{kUdpProtocol}) return 0;
  const uint32_t word = load_be32(p);
  ip.traffic_class = static_cast<uint8_t>(word >> 20);
  ip.flow_label = word & 0xfffff;
  ip.hop_limit = std::to_integer<uint8_t>(p[7]);
  std::memcpy(ip.source.raw.data(), p + 8, 16);
  std::memcpy(ip.destination.raw.data(), p + 24, 16);
  return kIpv6Bytes;
}

}  // namespace

size_t write_ip_udp(const IpFields& ip, uint16_t source_port, uint16_t destination_port,
                    size_t udp_payload_bytes, std::byte* out) {
  const bool ipv4 = ip.source.is_ipv4();
  const size_t udp_bytes = kUdpBytes + udp_payload_bytes;
  if (ipv4)
    write_ipv4(ip, udp_bytes, out);
  else
    write_ipv6(ip, udp_bytes, out);
  std::byte* udp = out + (ipv4 ? kIpv4Bytes : kIpv6Bytes);
  store_be16(udp, source_port);
  store_be16(udp + 2, destination_port);
  store_be16(udp + 4, static_cast<uint16_t>(udp_bytes));
  store_be16(udp + 6, 0);
  return ip_udp_bytes(ipv4);
}

void write_grh_area(const IpFields& ip, size_t payload_bytes, std::span<std::byte, kGrhBytes> area) {
  if (ip.source.is_ipv4())
    write_ipv4(ip, payload_bytes, area.data() + kGrhBytes - kIpv4Bytes);
  else
    write_ipv6(ip, payload_bytes, area.data());
}

bool parse_ip_udp(std::span<const std::byte> ip_packet, ParsedFrame& out) {
  if (ip_packet.empty()) return false;
  out.ip = {};
  size_t total = 0;
  size_t header = 0;
  switch (std::to_integer<uint8_t>(ip_packet[0]) >> 4) {
    case 4: header = parse_ipv4(ip_packet, out.ip, total); break;
    case 6: header = parse_ipv6(ip_packet, out.ip, total); break;
    default: return false;
  }
  if (header == 0 || total < header + kUdpBytes) return false;
  const std::byte* udp = ip_packet.data() + header;
  const size_t udp_bytes = load_be16(udp + 4);
  if (udp_bytes < kUdpBytes || udp_bytes > total - header) return false;
  out.source_port = load_be16(udp);
  out.destination_port = load_be16(udp + 2);
  out.udp_payload = {udp + kUdpBytes, udp_bytes - kUdpBytes};
  return true;
}

}  // namespace uroce::wire
