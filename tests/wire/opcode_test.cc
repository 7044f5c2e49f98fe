// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/opcode.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace uroce::wire {
namespace {

using I = OpcodeInfo;

TEST(Opcode, table_has_what_the_specification_has) {
  int rc = 0, uc = 0, ud = 0, xrc = 0, cnp = 0;
  std::set<std::string> names;
  for (int raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(raw));
    if (!info.has(I::known)) continue;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    switch (info.service) {
      case Service::rc: ++rc; break;
      case Service::uc: ++uc; break;
      case Service::ud: ++ud; break;
      case Service::xrc: ++xrc; break;
      case Service::cnp: ++cnp; break;
      default: FAIL() << raw;
    }
  }
  EXPECT_EQ(rc, 25);  // table 38: 23 of RC, and FLUSH, ATOMIC WRITE
  EXPECT_EQ(uc, 12);
  EXPECT_EQ(ud, 2);
  EXPECT_EQ(xrc, 25);
  EXPECT_EQ(cnp, 1);
}

TEST(Opcode, header_bytes_follow_from_the_extended_headers) {
  EXPECT_EQ(opcode_info(Opcode::rc_send_middle).header_bytes, 12);
  EXPECT_EQ(opcode_info(Opcode::rc_write_only_imm).header_bytes, 12 + 16 + 4);
  EXPECT_EQ(opcode_info(Opcode::rc_compare_swap).header_bytes, 12 + 28);
  EXPECT_EQ(opcode_info(Opcode::rc_atomic_acknowledge).header_bytes, 12 + 4 + 8);
  EXPECT_EQ(opcode_info(Opcode::ud_send_only_imm).header_bytes, 12 + 8 + 4);
  EXPECT_EQ(opcode_info(uint8_t{0xa6}).header_bytes, 12 + 4 + 16);  // XRC RDMA WRITE First
  EXPECT_EQ(opcode_info(uint8_t{0xb1}).header_bytes, 12 + 4);       // XRC Acknowledge has no XRCETH
}

TEST(Opcode, unknown_opcodes_have_no_flags) {
  for (int raw : {0x15, 0x18, 0x1e, 0x2c, 0x40, 0x60, 0x66, 0x80, 0x82, 0xb8, 0xff})
    EXPECT_EQ(opcode_info(static_cast<uint8_t>(raw)).flags, 0u) << raw;
}

TEST(Opcode, only_requests_of_messages_consume_receives) {
  for (int raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(raw));
    if (!info.has(I::consumes_receive)) continue;
    EXPECT_TRUE(info.has(I::request | I::last)) << info.name;
    EXPECT_TRUE(info.has(I::send) || info.has(I::write | I::imm)) << info.name;
  }
}

}  // namespace
}  // namespace uroce::wire
