// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Whole RoCEv2 frames below the transport packet: Ethernet-less IPv4/IPv6 + UDP, and the 40-byte GRH area of
// UD receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "provider/wire/address.h"

namespace uroce::wire {

inline constexpr size_t kGrhBytes = 40;
inline constexpr size_t kIpv4Bytes = 20;
inline constexpr size_t kIpv6Bytes = 40;
inline constexpr size_t kUdpBytes = 8;

struct IpFields {
  Gid source;  // both of one family
  Gid destination;
  uint8_t traffic_class = 0;  // TOS or traffic class, ECN bits included
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;      // IPv6 only, 20 bits
  uint16_t identification = 0;  // IPv4 only
};

// Bytes before the transport packet for this family: 28 or 48.
constexpr size_t ip_udp_bytes(bool ipv4) {
  return (ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
}

// Writes IP + UDP headers in front of `udp_payload_bytes` bytes (ICRC included). IPv4: DF set, right header
// checksum. The UDP checksum is 0. Returns the bytes written; `out` has room for 48.
size_t write_ip_udp(const IpFields& ip, uint16_t source_port, uint16_t destination_port,
                    size_t udp_payload_bytes, std::byte* out);

// The GRH area of a UD receive (annex A17.4.5.2): IPv6: the 40-byte header; IPv4: the header, with a valid
// checksum, at offset
// 20. For IPv4 only bytes 20..39 of `area` are written. `payload_bytes`: of the IP payload (UDP header and
// what follows).
void write_grh_area(const IpFields& ip, size_t payload_bytes, std::span<std::byte, kGrhBytes> area);

struct ParsedFrame {
  IpFields ip;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  std::span<const std::byte> udp_payload;  // ICRC included
};
// Parses an IP packet (no Ethernet header). False for anything that is not a whole, unfragmented UDP
// datagram.
bool parse_ip_udp(std::span<const std::byte> ip_packet, ParsedFrame& out);

}  // namespace uroce::wire
