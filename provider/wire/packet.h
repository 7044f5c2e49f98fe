// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One transport packet (what a RoCEv2 UDP datagram carries, without its ICRC): bytes <-> struct.
//
// Layout: BTH (12) | [XRCETH 4] | [DETH 8] | [RETH 16 | AtomicETH 28] | [AETH 4] | [AtomicAckETH 8] | [ImmDt
// 4 | IETH 4] | payload | pad (0-3). All fields are big-endian on the wire and host order in the structs,
// except `ImmDt`, which is carried through untouched (big-endian), as libibverbs hands it over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "provider/wire/number.h"
#include "provider/wire/opcode.h"

namespace uroce::wire {

inline constexpr size_t kBthBytes = 12;
inline constexpr size_t kIcrcBytes = 4;
inline constexpr uint16_t kRocePort = 4791;
inline constexpr uint16_t kDefaultPkey = 0xffff;

struct Bth {  // IBA 9.2
  Opcode opcode{};
  bool solicited = false;
  bool mig_req = true;
  uint8_t pad = 0;  // 0-3 bytes behind the payload
  uint16_t pkey = kDefaultPkey;
  bool fecn = false;  // RoCEv2: bits of the resv8a byte, not covered by the ICRC
  bool becn = false;
  Qpn dest_qpn;
  bool ack_request = false;
  Psn psn;
};

struct Reth {  // 9.3.3
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
};

// AETH syndrome (9.3.5.1): what kind and its 5-bit value.
enum class AethKind : uint8_t { ack = 0, rnr_nak = 1, reserved = 2, nak = 3 };
enum class NakCode : uint8_t {
  sequence_error = 0,
  invalid_request = 1,
  remote_access = 2,
  remote_operation = 3,
  invalid_rd_request = 4,
};
struct Aeth {
  AethKind kind = AethKind::ack;
  uint8_t value = 31;  // credit count (31: no credits used), RNR timer code, or NakCode
  uint32_t msn = 0;    // 24 bits
};

struct AtomicEth {  // 9.3.5.3
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;
};

struct Deth {  // 9.3.2
  uint32_t qkey = 0;
  Qpn source_qpn;
};

struct Feth {               // memory placement extensions: placement type and selectivity
  uint8_t placement = 0;    // bit 0 global visibility, bit 1 persistence
  uint8_t selectivity = 0;  // 0 range, 1 whole memory region
};

struct Packet {
  Bth bth;
  // Valid when opcode_info(bth.opcode) says so; untouched otherwise.
  uint32_t xrc_srqn = 0;
  Deth deth;
  Reth reth;
  AtomicEth atomic;
  Aeth aeth;
  uint64_t atomic_original = 0;
  uint32_t imm_be = 0;
  uint32_t invalidate_rkey = 0;
  Feth feth;
  std::span<const std::byte> payload;  // view into the parsed bytes; pad and ICRC excluded

  const OpcodeInfo& info() const { return opcode_info(bth.opcode); }
};

enum class ParseError : uint8_t {
  none,
  too_short,    // shorter than its headers, pad included
  bad_version,  // transport header version is not 0
  unknown_opcode,
  bad_length,  // not a multiple of 4, or payload where none may be
};
const char* to_string(ParseError error);

// `bytes`: from the BTH to the end of the pad (ICRC already cut off). Never reads outside it. On an error
// `out` is unspecified.
ParseError parse_packet(std::span<const std::byte> bytes, Packet& out);

// Writes BTH and extended headers of `packet` (payload not included) to `out`, which has room for
// opcode_info(opcode).header_bytes; returns that number. bth.pad is written as given.
size_t write_headers(const Packet& packet, std::byte* out);

constexpr uint8_t pad_for(size_t payload_bytes) {
  return static_cast<uint8_t>((4 - (payload_bytes & 3)) & 3);
}

}  // namespace uroce::wire
