// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/icrc.h"

#include <isa-l/crc.h>

#include <array>

#include "provider/wire/byte_order.h"
#include "provider/wire/ip_header.h"
#include "provider/wire/packet.h"

namespace uroce::wire {
namespace {

// The CRC-32 of Ethernet, reflected. A register is a polynomial with x^0 in the top bit; a zero byte
// multiplies it by x^8.
constexpr uint32_t kPolynomial = 0xedb88320;
constexpr uint32_t kOne = 0x80000000;
constexpr size_t kOnesBytes = 8;
constexpr size_t kMaxPacketWords = (65536 - kUdpBytes) / 4 + 1;

using ByteTable = std::array<uint32_t, 256>;

constexpr ByteTable make_step_table() {
  ByteTable table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t r = i;
    for (int bit = 0; bit < 8; ++bit) r = r & 1 ? (r >> 1) ^ kPolynomial : r >> 1;
    table[i] = r;
  }
  return table;
}
constexpr ByteTable kStep = make_step_table();

constexpr uint32_t zero_byte(uint32_t r) {
  return (r >> 8) ^ kStep[r & 0xff];
}

// The top bytes of the step table are all different, which makes the step invertible.
constexpr std::array<uint8_t, 256> make_inverse_index() {
  std::array<uint8_t, 256> index{};
  for (uint32_t i = 0; i < 256; ++i) index[kStep[i] >> 24] = static_cast<uint8_t>(i);
  return index;
}
constexpr std::array<uint8_t, 256> kInverseIndex = make_inverse_index();

constexpr uint32_t undo_zero_byte(uint32_t r) {
  const uint8_t low = kInverseIndex[r >> 24];
  return ((r ^ kStep[low]) << 8) | low;
}

// What one byte adds to the register, `behind` bytes after it.
constexpr ByteTable contribution(size_t behind) {
  ByteTable table = kStep;
  for (uint32_t& r : table)
    for (size_t i = 0; i < behind; ++i) r = zero_byte(r);
  return table;
}

// The fields of the prefix that differ from packet to packet.
struct FieldTables {
  ByteTable ip_length[2], udp_length[2], identification[2];
};
constexpr FieldTables make_tables(size_t ip_bytes, size_t ip_length_at, size_t identification_at) {
  const size_t end = ip_bytes + kUdpBytes;
  FieldTables t{};
  for (size_t i = 0; i < 2; ++i) {
    t.ip_length[i] = contribution(end - (ip_length_at + i) - 1);
    t.udp_length[i] = contribution(end - (ip_bytes + 4 + i) - 1);
    t.identification[i] = contribution(end - (identification_at + i) - 1);
  }
  return t;
}
constexpr size_t kIpv4IdentificationAt = 4;
constexpr FieldTables kIpv4Tables = make_tables(kIpv4Bytes, 2, kIpv4IdentificationAt);
constexpr FieldTables kIpv6Tables = make_tables(kIpv6Bytes, 4, 4);
constexpr size_t kBytesBehindIdentification = kIpv4Bytes + kUdpBytes - kIpv4IdentificationAt - 2;

uint32_t add(const ByteTable (&table)[2], size_t value) {
  return table[0][(value >> 8) & 0xff] ^ table[1][value & 0xff];
}

uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^(-8 (4 i + bytes between the end of the Identification and the packet, and the two of the field itself)).
struct UndoTable {
  std::array<uint32_t, kMaxPacketWords> power;
  UndoTable() {
    uint32_t r = kOne;
    for (size_t i = 0; i < kBytesBehindIdentification + 2; ++i) r = undo_zero_byte(r);
    for (uint32_t& p : power) {
      p = r;
      for (int i = 0; i < 4; ++i) r = undo_zero_byte(r);
    }
  }
};
const UndoTable kUndo;

uint32_t continue_crc(uint32_t crc, const std::byte* data, size_t bytes) {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(data), bytes);
}

// The BTH by tables, one per byte: the library's fixed cost per call is more than that. The resv8a byte
// counts as ones.
using BthTables = std::array<ByteTable, kBthBytes>;
constexpr BthTables make_bth_tables() {
  BthTables tables{};
  for (size_t i = 0; i < kBthBytes; ++i) tables[i] = contribution(kBthBytes - 1 - i);
  return tables;
}
constexpr BthTables kBthTables = make_bth_tables();

uint32_t over_bth(uint32_t crc, const std::byte* bth) {
  uint32_t words[3];
  std::memcpy(words, bth, sizeof words);
  words[0] ^= ~crc;
  words[1] |= 0xff;
  uint32_t r = 0;
  for (size_t i = 0; i < kBthBytes; ++i) r ^= kBthTables[i][(words[i / 4] >> (i % 4 * 8)) & 0xff];
  return ~r;
}

uint32_t over_packet(uint32_t crc, std::span<const std::byte> packet) {
  crc = over_bth(crc, packet.data());
  return packet.size() == kBthBytes ? crc
                                    : continue_crc(crc, packet.data() + kBthBytes, packet.size() - kBthBytes);
}

// The length-dependent part. `packet` stands in front of the four bytes of the ICRC.
uint32_t length_part(bool ipv4, size_t packet_bytes) {
  const FieldTables& tables = ipv4 ? kIpv4Tables : kIpv6Tables;
  const size_t udp_bytes = kUdpBytes + packet_bytes + kIcrcBytes;
  return add(tables.ip_length, ipv4 ? kIpv4Bytes + udp_bytes : udp_bytes) ^ add(tables.udp_length, udp_bytes);
}

}  // namespace

IcrcFlow::IcrcFlow(const Gid& source, const Gid& destination, uint16_t source_port, uint16_t destination_port)
    : ipv4_(source.is_ipv4()) {
  std::byte prefix[kOnesBytes + kIpv6Bytes + kUdpBytes];
  std::memset(prefix, 0xff, kOnesBytes);
  IpFields ip;
  ip.source = source;
  ip.destination = destination;
  std::byte* header = prefix + kOnesBytes;
  const size_t header_bytes = write_ip_udp(ip, source_port, destination_port, 0, header);
  std::byte* udp = header + header_bytes - kUdpBytes;
  if (ipv4_) {
    header[1] = std::byte{0xff};  // TOS
    store_be16(header + 2, 0);    // total length and Identification are added per packet
    store_be16(header + 4, 0);
    header[8] = std::byte{0xff};      // TTL
    store_be16(header + 10, 0xffff);  // checksum
  } else {
    store_be32(header, 0x6fffffff);  // traffic class and flow label
    store_be16(header + 4, 0);       // payload length is added per packet
    header[7] = std::byte{0xff};     // hop limit
  }
  store_be16(udp + 4, 0);
  store_be16(udp + 6, 0xffff);
  base_state_ = continue_crc(0, prefix, kOnesBytes + header_bytes);
}

uint32_t IcrcFlow::compute(std::span<const std::byte> packet, uint16_t identification) const {
  uint32_t crc = base_state_ ^ length_part(ipv4_, packet.size());
  if (ipv4_) crc ^= add(kIpv4Tables.identification, identification);
  return over_packet(crc, packet);
}

std::optional<uint16_t> IcrcFlow::solve_identification(std::span<const std::byte> packet, uint32_t icrc,
                                                       uint16_t guess) const {
  const uint32_t difference = icrc ^ compute(packet, guess);
  if (difference == 0) return ipv4_ ? guess : 0;
  if (!ipv4_ || (packet.size() & 3) != 0 || packet.size() / 4 >= kMaxPacketWords) return std::nullopt;
  // Taken back to in front of the Identification, the difference must lie in the field's 16 bits alone.
  const uint32_t field = multiply(kUndo.power[packet.size() / 4], difference);
  if ((field >> 16) != 0) return std::nullopt;
  return static_cast<uint16_t>(guess ^ __builtin_bswap16(static_cast<uint16_t>(field)));
}

}  // namespace uroce::wire
