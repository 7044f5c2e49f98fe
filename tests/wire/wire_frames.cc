// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Writes a capture with one frame per opcode, family and payload size, for the oracles to read. Usage:
// wire_frames FILE.pcap
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "provider/wire/byte_order.h"
#include "provider/wire/icrc.h"
#include "provider/wire/ip_header.h"
#include "provider/wire/packet.h"

namespace {

using namespace uroce::wire;

constexpr uint32_t kLinkTypeRawIp = 101;

void put32(std::FILE* file, uint32_t v) {
  std::fwrite(&v, 4, 1, file);
}

Gid ipv6(uint8_t last) {
  Gid g;
  g.raw = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return g;
}

// Over IPv6 the checksum is not optional (and the ICRC does not cover it).
void add_udp_checksum(std::vector<std::byte>& frame) {
  const size_t udp_bytes = frame.size() - kIpv6Bytes;
  uint32_t sum = 17 + static_cast<uint32_t>(udp_bytes);
  for (size_t i = 8; i < frame.size(); i += 2) sum += load_be16(frame.data() + i);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  store_be16(frame.data() + kIpv6Bytes + 6, static_cast<uint16_t>(~sum));
}

std::vector<std::byte> frame(const Packet& packet, const IpFields& ip, uint16_t source_port) {
  std::vector<std::byte> bytes(packet.info().header_bytes);
  write_headers(packet, bytes.data());
  bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
  bytes.resize(bytes.size() + packet.bth.pad);
  const IcrcFlow flow(ip.source, ip.destination, source_port, kRocePort);
  const uint32_t icrc = flow.compute(bytes, ip.identification);
  const size_t transport_bytes = bytes.size();
  bytes.resize(transport_bytes + kIcrcBytes);
  store_icrc(bytes.data() + transport_bytes, icrc);
  std::vector<std::byte> out(48);
  out.resize(write_ip_udp(ip, source_port, kRocePort, bytes.size(), out.data()));
  out.insert(out.end(), bytes.begin(), bytes.end());
  if (!ip.source.is_ipv4()) add_udp_checksum(out);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  std::FILE* file = argc == 2 ? std::fopen(argv[1], "wb") : nullptr;
  if (file == nullptr) return 2;
  for (uint32_t word : {0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, kLinkTypeRawIp}) put32(file, word);

  std::mt19937 random(4791);
  std::vector<std::byte> payload(4096);
  for (std::byte& b : payload) b = static_cast<std::byte>(random());
  uint32_t number = 0;
  for (int raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(raw));
    if (!info.has(OpcodeInfo::known)) continue;
    for (const bool ipv4 : {true, false}) {
      for (size_t size : {0u, 1u, 2u, 3u, 8u, 1024u, 4096u}) {
        if (info.service == Service::cnp) size = 16;
        if (!info.has(OpcodeInfo::payload)) size = 0;
        Packet packet;
        packet.bth.opcode = static_cast<Opcode>(raw);
        packet.bth.dest_qpn = Qpn(0x4001 + number % 100);
        packet.bth.psn = Psn(random());
        packet.bth.ack_request = info.has(OpcodeInfo::last);
        packet.bth.fecn = number % 3 == 0;
        packet.bth.becn = info.service == Service::cnp;
        packet.bth.pad = pad_for(size);
        packet.reth = {0x123456789abcdef0, 0x11223344, 77};
        packet.atomic = {0x1000, 0x55667788, 0x0102030405060708, 0x1112131415161718};
        packet.aeth = {AethKind::ack, 31, 0x010203};
        packet.deth = {0x80010000, Qpn(0x8001)};
        packet.imm_be = 0xddccbbaa;
        packet.invalidate_rkey = 0xcafe0001;
        packet.payload = {payload.data(), size};
        IpFields ip;
        ip.source = ipv4 ? Gid::from_ipv4_be(0x0100000a) : ipv6(1);
        ip.destination = ipv4 ? Gid::from_ipv4_be(0x0200000a) : ipv6(2);
        ip.traffic_class = static_cast<uint8_t>(number);
        ip.hop_limit = static_cast<uint8_t>(64 + number % 7);
        ip.flow_label = number & 0xfffff;
        ip.identification = static_cast<uint16_t>(random());
        const auto bytes = frame(packet, ip, static_cast<uint16_t>(49152 + number % 1000));
        for (uint32_t word :
             {number, 0u, static_cast<uint32_t>(bytes.size()), static_cast<uint32_t>(bytes.size())})
          put32(file, word);
        std::fwrite(bytes.data(), 1, bytes.size(), file);
        ++number;
        if (!info.has(OpcodeInfo::payload) || info.service == Service::cnp) break;
      }
    }
  }
  return std::fclose(file) == 0 ? 0 : 1;
}
