// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// BTH opcodes (IBA 9.2.1, table 38) and what follows the BTH for each of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::wire {

enum class Service : uint8_t { rc = 0, uc = 1, rd = 2, ud = 3, cnp = 4, xrc = 5 };

enum class Opcode : uint8_t {
  rc_send_first = 0x00,
  rc_send_middle = 0x01,
  rc_send_last = 0x02,
  rc_send_last_imm = 0x03,
  rc_send_only = 0x04,
  rc_send_only_imm = 0x05,
  rc_write_first = 0x06,
  rc_write_middle = 0x07,
  rc_write_last = 0x08,
  rc_write_last_imm = 0x09,
  rc_write_only = 0x0a,
  rc_write_only_imm = 0x0b,
  rc_read_request = 0x0c,
  rc_read_response_first = 0x0d,
  rc_read_response_middle = 0x0e,
  rc_read_response_last = 0x0f,
  rc_read_response_only = 0x10,
  rc_acknowledge = 0x11,
  rc_atomic_acknowledge = 0x12,
  rc_compare_swap = 0x13,
  rc_fetch_add = 0x14,
  rc_send_last_invalidate = 0x16,
  rc_send_only_invalidate = 0x17,
  rc_flush = 0x1c,  // IBA 1.6 memory placement extensions
  rc_atomic_write = 0x1d,

  uc_send_first = 0x20,
  uc_send_middle = 0x21,
  uc_send_last = 0x22,
  uc_send_last_imm = 0x23,
  uc_send_only = 0x24,
  uc_send_only_imm = 0x25,
  uc_write_first = 0x26,
  uc_write_middle = 0x27,
  uc_write_last = 0x28,
  uc_write_last_imm = 0x29,
  uc_write_only = 0x2a,
  uc_write_only_imm = 0x2b,

  ud_send_only = 0x64,
  ud_send_only_imm = 0x65,

  cnp = 0x81,  // RoCEv2 congestion notification packet (annex A17)

  // XRC repeats the RC numbers at 0xa0, with an XRCETH behind the BTH of requests.
  xrc_base = 0xa0,
};

struct OpcodeInfo {
  enum Flag : uint32_t {
    known = 1u << 0,
    request = 1u << 1,   // requester to responder
    response = 1u << 2,  // responder to requester
    first = 1u << 3,     // begins a message (also set for ONLY)
    last = 1u << 4,      // ends a message (also set for ONLY)
    payload = 1u << 5,   // carries payload
    send = 1u << 6,
    write = 1u << 7,
    read = 1u << 8,
    atomic = 1u << 9,  // compare-swap, fetch-add and their response
    reth = 1u << 10,
    aeth = 1u << 11,
    atomic_eth = 1u << 12,
    atomic_ack_eth = 1u << 13,
    imm = 1u << 14,
    ieth = 1u << 15,
    deth = 1u << 16,
    xrceth = 1u << 17,
    feth = 1u << 18,              // flush extended header
    consumes_receive = 1u << 19,  // ends in a receive completion
  };
  const char* name;      // IBA's words, e.g. "RC RDMA WRITE First"
  uint32_t flags;        // 0 when the opcode is unknown
  uint8_t header_bytes;  // BTH and everything before the payload
  Service service;

  constexpr bool has(uint32_t f) const { return (flags & f) == f; }
};

// Never fails: an unknown opcode has flags 0.
const OpcodeInfo& opcode_info(Opcode opcode);
inline const OpcodeInfo& opcode_info(uint8_t raw) {
  return opcode_info(static_cast<Opcode>(raw));
}

}  // namespace uroce::wire
