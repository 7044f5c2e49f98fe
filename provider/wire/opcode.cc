// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/opcode.h"

#include <array>

namespace uroce::wire {
namespace {

using I = OpcodeInfo;
constexpr uint32_t kRequest = I::known | I::request;
constexpr uint32_t kResponse = I::known | I::response;
constexpr uint32_t kOnly = I::first | I::last;

// Size of everything in front of the payload follows from the flags.
constexpr uint8_t header_bytes(uint32_t flags) {
  size_t bytes = 12;
  if (flags & I::xrceth) bytes += 4;
  if (flags & I::deth) bytes += 8;
  if (flags & I::feth) bytes += 4;
  if (flags & I::reth) bytes += 16;
  if (flags & I::atomic_eth) bytes += 28;
  if (flags & I::aeth) bytes += 4;
  if (flags & I::atomic_ack_eth) bytes += 8;
  if (flags & I::imm) bytes += 4;
  if (flags & I::ieth) bytes += 4;
  return static_cast<uint8_t>(bytes);
}

struct Row {
  uint8_t low;  // low five bits of the opcode
  const char* rc;
  const char* uc;  // nullptr: not in UC
  const char* xrc;
  uint32_t flags;
};

// IBA table 38. The low five bits mean the same in RC, UC and XRC.
constexpr Row kRows[] = {
    {0x00, "RC SEND First", "UC SEND First", "XRC SEND First", kRequest | I::send | I::first | I::payload},
    {0x01, "RC SEND Middle", "UC SEND Middle", "XRC SEND Middle", kRequest | I::send | I::payload},
    {0x02, "RC SEND Last", "UC SEND Last", "XRC SEND Last",
     kRequest | I::send | I::last | I::payload | I::consumes_receive},
    {0x03, "RC SEND Last with Immediate", "UC SEND Last with Immediate", "XRC SEND Last with Immediate",
     kRequest | I::send | I::last | I::payload | I::imm | I::consumes_receive},
    {0x04, "RC SEND Only", "UC SEND Only", "XRC SEND Only",
     kRequest | I::send | kOnly | I::payload | I::consumes_receive},
    {0x05, "RC SEND Only with Immediate", "UC SEND Only with Immediate", "XRC SEND Only with Immediate",
     kRequest | I::send | kOnly | I::payload | I::imm | I::consumes_receive},
    {0x06, "RC RDMA WRITE First", "UC RDMA WRITE First", "XRC RDMA WRITE First",
     kRequest | I::write | I::first | I::payload | I::reth},
    {0x07, "RC RDMA WRITE Middle", "UC RDMA WRITE Middle", "XRC RDMA WRITE Middle",
     kRequest | I::write | I::payload},
    {0x08, "RC RDMA WRITE Last", "UC RDMA WRITE Last", "XRC RDMA WRITE Last",
     kRequest | I::write | I::last | I::payload},
    {0x09, "RC RDMA WRITE Last with Immediate", "UC RDMA WRITE Last with Immediate",
     "XRC RDMA WRITE Last with Immediate",
     kRequest | I::write | I::last | I::payload | I::imm | I::consumes_receive},
    {0x0a, "RC RDMA WRITE Only", "UC RDMA WRITE Only", "XRC RDMA WRITE Only",
     kRequest | I::write | kOnly | I::payload | I::reth},
    {0x0b, "RC RDMA WRITE Only with Immediate", "UC RDMA WRITE Only with Immediate",
     "XRC RDMA WRITE Only with Immediate",
     kRequest | I::write | kOnly | I::payload | I::reth | I::imm | I::consumes_receive},
    {0x0c, "RC RDMA READ Request", nullptr, "XRC RDMA READ Request", kRequest | I::read | kOnly | I::reth},
    {0x0d, "RC RDMA READ Response First", nullptr, "XRC RDMA READ Response First",
     kResponse | I::read | I::first | I::payload | I::aeth},
    {0x0e, "RC RDMA READ Response Middle", nullptr, "XRC RDMA READ Response Middle",
     kResponse | I::read | I::payload},
    {0x0f, "RC RDMA READ Response Last", nullptr, "XRC RDMA READ Response Last",
     kResponse | I::read | I::last | I::payload | I::aeth},
    {0x10, "RC RDMA READ Response Only", nullptr, "XRC RDMA READ Response Only",
     kResponse | I::read | kOnly | I::payload | I::aeth},
    {0x11, "RC Acknowledge", nullptr, "XRC Acknowledge", kResponse | kOnly | I::aeth},
    {0x12, "RC ATOMIC Acknowledge", nullptr, "XRC ATOMIC Acknowledge",
     kResponse | I::atomic | kOnly | I::aeth | I::atomic_ack_eth},
    {0x13, "RC CmpSwap", nullptr, "XRC CmpSwap", kRequest | I::atomic | kOnly | I::atomic_eth},
    {0x14, "RC FetchAdd", nullptr, "XRC FetchAdd", kRequest | I::atomic | kOnly | I::atomic_eth},
    {0x16, "RC SEND Last with Invalidate", nullptr, "XRC SEND Last with Invalidate",
     kRequest | I::send | I::last | I::payload | I::ieth | I::consumes_receive},
    {0x17, "RC SEND Only with Invalidate", nullptr, "XRC SEND Only with Invalidate",
     kRequest | I::send | kOnly | I::payload | I::ieth | I::consumes_receive},
    {0x1c, "RC FLUSH", nullptr, "XRC FLUSH", kRequest | kOnly | I::feth | I::reth},
    {0x1d, "RC ATOMIC WRITE", nullptr, "XRC ATOMIC WRITE",
     kRequest | I::atomic | kOnly | I::payload | I::reth},
};

constexpr OpcodeInfo info(const char* name, uint32_t flags, Service service) {
  return {name, flags, header_bytes(flags), service};
}

constexpr std::array<OpcodeInfo, 256> make_table() {
  std::array<OpcodeInfo, 256> table{};
  for (OpcodeInfo& entry : table) entry = {"unknown", 0, 12, Service::rc};
  for (const Row& row : kRows) {
    table[0x00 | row.low] = info(row.rc, row.flags, Service::rc);
    if (row.uc != nullptr) table[0x20 | row.low] = info(row.uc, row.flags, Service::uc);
    // Only requests name the SRQ they are meant for.
    const uint32_t xrceth = (row.flags & I::request) != 0 ? uint32_t{I::xrceth} : 0;
    table[0xa0 | row.low] = info(row.xrc, row.flags | xrceth, Service::xrc);
  }
  constexpr uint32_t kUd = kRequest | I::send | kOnly | I::payload | I::deth | I::consumes_receive;
  table[0x64] = info("UD SEND Only", kUd, Service::ud);
  table[0x65] = info("UD SEND Only with Immediate", kUd | I::imm, Service::ud);
  table[0x81] = info("CNP", I::known | kOnly | I::payload, Service::cnp);
  return table;
}

constexpr std::array<OpcodeInfo, 256> kTable = make_table();

}  // namespace

const OpcodeInfo& opcode_info(Opcode opcode) {
  return kTable[static_cast<uint8_t>(opcode)];
}

}  // namespace uroce::wire
