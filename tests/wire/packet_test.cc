// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/packet.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace uroce::wire {
namespace {

using I = OpcodeInfo;

std::vector<std::byte> bytes_of(std::initializer_list<int> list) {
  std::vector<std::byte> out;
  for (int v : list) out.push_back(static_cast<std::byte>(v));
  return out;
}

TEST(Packet, write_only_as_it_stands_on_the_wire) {
  Packet p;
  p.bth.opcode = Opcode::rc_write_only_imm;
  p.bth.solicited = true;
  p.bth.pad = 1;
  p.bth.dest_qpn = Qpn(0x123456);
  p.bth.ack_request = true;
  p.bth.psn = Psn(0xabcdef);
  p.reth = {0x1122334455667788, 0x99aabbcc, 0x01020304};
  p.imm_be = 0x04030201;  // bytes 01 02 03 04
  std::byte out[64];
  ASSERT_EQ(write_headers(p, out), 32u);
  const auto expected = bytes_of({0x0b, 0xd0, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef,  //
                                  0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,  //
                                  0x01, 0x02, 0x03, 0x04, 0x01, 0x02, 0x03, 0x04});
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out));
}

TEST(Packet, acknowledge_as_it_stands_on_the_wire) {
  Packet p;
  p.bth.opcode = Opcode::rc_acknowledge;
  p.aeth = {AethKind::nak, static_cast<uint8_t>(NakCode::remote_access), 0x010203};
  std::byte out[64];
  ASSERT_EQ(write_headers(p, out), 16u);
  EXPECT_EQ(out[12], std::byte{0x62});
  EXPECT_EQ(out[15], std::byte{0x03});
  p.aeth.kind = AethKind::rnr_nak;
  p.aeth.value = 14;
  write_headers(p, out);
  EXPECT_EQ(out[12], std::byte{0x2e});
}

TEST(Packet, every_opcode_comes_back_as_it_was_written) {
  std::mt19937_64 random(1);
  for (int raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(raw));
    if (!info.has(I::known)) continue;
    const size_t payload = info.has(I::payload) ? 5 : 0;
    Packet p;
    p.bth.opcode = static_cast<Opcode>(raw);
    p.bth.pad = pad_for(payload);
    p.bth.fecn = raw & 1;
    p.bth.becn = raw & 2;
    p.bth.pkey = 0x7fff;
    p.bth.dest_qpn = Qpn(static_cast<uint32_t>(random()));
    p.bth.psn = Psn(static_cast<uint32_t>(random()));
    p.xrc_srqn = random() & 0xffffff;
    p.deth = {static_cast<uint32_t>(random()), Qpn(static_cast<uint32_t>(random()))};
    p.reth = {random(), static_cast<uint32_t>(random()), static_cast<uint32_t>(random())};
    p.atomic = {random(), static_cast<uint32_t>(random()), random(), random()};
    p.aeth = {AethKind::ack, 17, 0x123456};
    p.atomic_original = random();
    p.imm_be = static_cast<uint32_t>(random());
    p.invalidate_rkey = static_cast<uint32_t>(random());
    p.feth = {3, 1};
    std::vector<std::byte> bytes(128);
    bytes.resize(write_headers(p, bytes.data()) + payload + p.bth.pad);
    ASSERT_EQ(bytes.size(), info.header_bytes + payload + p.bth.pad) << info.name;

    Packet q;
    ASSERT_EQ(parse_packet(bytes, q), ParseError::none) << info.name;
    EXPECT_EQ(q.bth.dest_qpn, p.bth.dest_qpn);
    EXPECT_EQ(q.bth.psn, p.bth.psn);
    EXPECT_EQ(q.bth.fecn, p.bth.fecn);
    EXPECT_EQ(q.bth.becn, p.bth.becn);
    EXPECT_EQ(q.bth.pkey, p.bth.pkey);
    EXPECT_EQ(q.payload.size(), payload);
    std::vector<std::byte> again(128);
    again.resize(write_headers(q, again.data()) + payload + q.bth.pad);
    EXPECT_EQ(again, bytes) << info.name;
  }
}

TEST(Packet, parse__too_short) {
  std::vector<std::byte> bytes(11);
  Packet p;
  EXPECT_EQ(parse_packet(bytes, p), ParseError::too_short);
  bytes = bytes_of(
      {0x0a, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});  // WRITE Only without a whole RETH
  EXPECT_EQ(parse_packet(bytes, p), ParseError::too_short);
  bytes = bytes_of({0x04, 0x70, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0});  // three bytes of pad, but no payload
  EXPECT_EQ(parse_packet(bytes, p), ParseError::too_short);
}

TEST(Packet, parse__bad_version) {
  const auto bytes = bytes_of({0x04, 0x41, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0});
  Packet p;
  EXPECT_EQ(parse_packet(bytes, p), ParseError::bad_version);
}

TEST(Packet, parse__unknown_opcode) {
  const auto bytes = bytes_of({0x1f, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0});
  Packet p;
  EXPECT_EQ(parse_packet(bytes, p), ParseError::unknown_opcode);
}

TEST(Packet, parse__bad_length) {
  auto bytes = bytes_of({0x04, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  Packet p;
  EXPECT_EQ(parse_packet(bytes, p), ParseError::bad_length);
  bytes =
      bytes_of({0x11, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4});  // ACK with payload
  EXPECT_EQ(parse_packet(bytes, p), ParseError::bad_length);
}

TEST(Packet, parse__random_bytes_never_read_outside) {
  std::mt19937 random(20260101);
  for (int i = 0; i < 200'000; ++i) {
    // Heap memory of the exact size: the sanitizers see each byte too many.
    std::vector<std::byte> bytes(random() % 80);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    if (bytes.size() > 1) bytes[1] &= std::byte{0xf0};
    Packet p;
    if (parse_packet(bytes, p) != ParseError::none) continue;
    ASSERT_GE(p.payload.data(), bytes.data());
    ASSERT_LE(p.payload.data() + p.payload.size() + p.bth.pad, bytes.data() + bytes.size());
  }
}

TEST(Packet, every_error_has_words) {
  for (auto e : {ParseError::none, ParseError::too_short, ParseError::bad_version, ParseError::unknown_opcode,
                 ParseError::bad_length})
    EXPECT_STRNE(to_string(e), "?");
}

}  // namespace
}  // namespace uroce::wire
