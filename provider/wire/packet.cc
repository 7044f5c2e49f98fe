// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/packet.h"

#include <cstring>

#include "provider/wire/byte_order.h"

namespace uroce::wire {
namespace {

using I = OpcodeInfo;

uint8_t byte_at(const std::byte* p) {
  return std::to_integer<uint8_t>(*p);
}

// IBA 9.2: opcode | se m pad tver | pkey | resv8a (RoCEv2: fecn, becn) | dest qp | a resv7 | psn
void parse_bth(const std::byte* p, Bth& bth) {
  bth.opcode = static_cast<Opcode>(byte_at(p));
  const uint8_t flags = byte_at(p + 1);
  bth.solicited = flags & 0x80;
  bth.mig_req = flags & 0x40;
  bth.pad = (flags >> 4) & 3;
  bth.pkey = load_be16(p + 2);
  const uint32_t qp = load_be32(p + 4);
  bth.fecn = qp & 0x80000000;
  bth.becn = qp & 0x40000000;
  bth.dest_qpn = Qpn(qp);
  const uint32_t psn = load_be32(p + 8);
  bth.ack_request = psn & 0x80000000;
  bth.psn = Psn(psn);
}

void write_bth(const Bth& bth, std::byte* p) {
  p[0] = static_cast<std::byte>(bth.opcode);
  p[1] = static_cast<std::byte>((bth.solicited ? 0x80 : 0) | (bth.mig_req ? 0x40 : 0) | ((bth.pad & 3) << 4));
  store_be16(p + 2, bth.pkey);
  store_be32(p + 4, bth.dest_qpn.value() | (bth.fecn ? 0x80000000 : 0) | (bth.becn ? 0x40000000 : 0));
  store_be32(p + 8, bth.psn.value() | (bth.ack_request ? 0x80000000 : 0));
}

void parse_aeth(const std::byte* p, Aeth& aeth) {
  const uint32_t word = load_be32(p);
  aeth.kind = static_cast<AethKind>((word >> 29) & 3);
  aeth.value = (word >> 24) & 31;
  aeth.msn = word & 0xffffff;
}

void write_aeth(const Aeth& aeth, std::byte* p) {
  store_be32(p, (static_cast<uint32_t>(aeth.kind) << 29) | (uint32_t{aeth.value} & 31) << 24 |
                    (aeth.msn & 0xffffff));
}

// Returns the first byte behind the extended headers.
const std::byte* parse_extended(const std::byte* p, uint32_t flags, Packet& out) {
  if (flags & I::xrceth) {
    out.xrc_srqn = load_be32(p) & 0xffffff;
    p += 4;
  }
  if (flags & I::deth) {
    out.deth.qkey = load_be32(p);
    out.deth.source_qpn = Qpn(load_be32(p + 4));
    p += 8;
  }
  if (flags & I::feth) {
    const uint32_t word = load_be32(p);
    out.feth.placement = word & 0xf;
    out.feth.selectivity = (word >> 4) & 3;
    p += 4;
  }
  if (flags & I::reth) {
    out.reth.va = load_be64(p);
    out.reth.rkey = load_be32(p + 8);
    out.reth.length = load_be32(p + 12);
    p += 16;
  }
  if (flags & I::atomic_eth) {
    out.atomic.va = load_be64(p);
    out.atomic.rkey = load_be32(p + 8);
    out.atomic.swap_or_add = load_be64(p + 12);
    out.atomic.compare = load_be64(p + 20);
    p += 28;
  }
  if (flags & I::aeth) {
    parse_aeth(p, out.aeth);
    p += 4;
  }
  if (flags & I::atomic_ack_eth) {
    out.atomic_original = load_be64(p);
    p += 8;
  }
  if (flags & I::imm) {
    std::memcpy(&out.imm_be, p, 4);
    p += 4;
  }
  if (flags & I::ieth) {
    out.invalidate_rkey = load_be32(p);
    p += 4;
  }
  return p;
}

std::byte* write_extended(const Packet& packet, uint32_t flags, std::byte* p) {
  if (flags & I::xrceth) {
    store_be32(p, packet.xrc_srqn & 0xffffff);
    p += 4;
  }
  if (flags & I::deth) {
    store_be32(p, packet.deth.qkey);
    store_be32(p + 4, packet.deth.source_qpn.value());
    p += 8;
  }
  if (flags & I::feth) {
    store_be32(p, (uint32_t{packet.feth.selectivity} & 3) << 4 | (packet.feth.placement & 0xf));
    p += 4;
  }
  if (flags & I::reth) {
    store_be64(p, packet.reth.va);
    store_be32(p + 8, packet.reth.rkey);
    store_be32(p + 12, packet.reth.length);
    p += 16;
  }
  if (flags & I::atomic_eth) {
    store_be64(p, packet.atomic.va);
    store_be32(p + 8, packet.atomic.rkey);
    store_be64(p + 12, packet.atomic.swap_or_add);
    store_be64(p + 20, packet.atomic.compare);
    p += 28;
  }
  if (flags & I::aeth) {
    write_aeth(packet.aeth, p);
    p += 4;
  }
  if (flags & I::atomic_ack_eth) {
    store_be64(p, packet.atomic_original);
    p += 8;
  }
  if (flags & I::imm) {
    std::memcpy(p, &packet.imm_be, 4);
    p += 4;
  }
  if (flags & I::ieth) {
    store_be32(p, packet.invalidate_rkey);
    p += 4;
  }
  return p;
}

}  // namespace

const char* to_string(ParseError error) {
  switch (error) {
    case ParseError::none: return "none";
    case ParseError::too_short: return "shorter than its headers";
    case ParseError::bad_version: return "unknown transport header version";
    case ParseError::unknown_opcode: return "unknown opcode";
    case ParseError::bad_length: return "length that its opcode does not allow";
  }
  return "?";
}

ParseError parse_packet(std::span<const std::byte> bytes, Packet& out) {
  if (bytes.size() < kBthBytes) return ParseError::too_short;
  if ((byte_at(bytes.data() + 1) & 0x0f) != 0) return ParseError::bad_version;
  parse_bth(bytes.data(), out.bth);
  const OpcodeInfo& info = out.info();
  if (!info.has(I::known)) return ParseError::unknown_opcode;
  if (bytes.size() < size_t{info.header_bytes} + out.bth.pad) return ParseError::too_short;
  if ((bytes.size() & 3) != 0) return ParseError::bad_length;
  const std::byte* payload = parse_extended(bytes.data() + kBthBytes, info.flags, out);
  out.payload = {payload, bytes.size() - info.header_bytes - out.bth.pad};
  if (!info.has(I::payload) && (!out.payload.empty() || out.bth.pad != 0)) return ParseError::bad_length;
  return ParseError::none;
}

size_t write_headers(const Packet& packet, std::byte* out) {
  write_bth(packet.bth, out);
  return static_cast<size_t>(write_extended(packet, packet.info().flags, out + kBthBytes) - out);
}

}  // namespace uroce::wire
