// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Writes a capture with one frame per opcode, family and payload size, for the oracles to read. Usage:
// wire_frames FILE.pcap
#include <random>
#include <vector>

#include "tests/wire/frame_file.h"

namespace {

using namespace uroce::wire;

Gid ipv6(uint8_t last) {
  Gid g;
  g.raw = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return g;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  test::FrameFile file(argv[1]);

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
        file.add(packet, ip, static_cast<uint16_t>(49152 + number % 1000));
        ++number;
        if (!info.has(OpcodeInfo::payload) || info.service == Service::cnp) break;
      }
    }
  }
  return file.close() ? 0 : 1;
}
