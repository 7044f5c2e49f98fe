// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/cm_message.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <numeric>

#include "provider/wire/byte_order.h"

namespace uroce::wire {
namespace {

constexpr size_t kBody = 24;  // behind the MAD header

template <typename Message>
Message back(const CmMessage& message) {
  Mad mad;
  write_cm(message, 0x1122334455667788, mad);
  CmMessage out;
  uint64_t transaction = 0;
  EXPECT_EQ(parse_cm(mad, out, transaction), CmParseError::none);
  EXPECT_EQ(transaction, 0x1122334455667788u);
  return std::get<Message>(out);
}

Mad written(const CmMessage& message) {
  Mad mad;
  write_cm(message, 0x0102030405060708, mad);
  return mad;
}

void expect_bytes(const Mad& mad, size_t at, std::initializer_list<int> bytes) {
  for (const int byte : bytes) {
    EXPECT_EQ(std::to_integer<int>(mad[at]), byte) << "byte " << at;
    ++at;
  }
}

template <size_t Bytes>
void fill(PrivateData<Bytes>& data) {
  std::iota(data.bytes.begin(), data.bytes.end(), uint8_t{1});
}

CmReq full_request() {
  CmReq m;
  m.local_id = 0xa1a2a3a4;
  m.service_id = ip_service_id(0x0106, 4791);
  m.local_ca_guid = 0xb1b2b3b4b5b6b7b8;
  m.local_qkey = 0xc1c2c3c4;
  m.local_qpn = 0xd1d2d3;
  m.responder_resources = 0xe1;
  m.initiator_depth = 0xe2;
  m.remote_response_timeout = 20;
  m.transport = CmTransport::extended;
  m.end_to_end_flow_control = true;
  m.starting_psn = 0xf1f2f3;
  m.local_response_timeout = 31;
  m.retry_count = 7;
  m.pkey = 0x7fff;
  m.path_mtu = 5;
  m.rdc_exists = true;
  m.rnr_retry_count = 3;
  m.max_cm_retries = 15;
  m.srq = true;
  m.extended_transport = 1;
  m.primary.local_lid = 1;
  m.primary.remote_lid = 2;
  m.primary.local_gid = Gid::from_ipv4_be(0x0100000a);
  m.primary.remote_gid = Gid::from_ipv4_be(0x0200000a);
  m.primary.flow_label = 0xfedcb;
  m.primary.packet_rate = 0x3f;
  m.primary.traffic_class = 0x12;
  m.primary.hop_limit = 0x34;
  m.primary.sl = 9;
  m.primary.subnet_local = true;
  m.primary.local_ack_timeout = 19;
  m.alternate = m.primary;
  m.alternate.sl = 1;
  fill(m.private_data);
  return m;
}

TEST(CmMessage, header_stands_in_front_of_every_message) {
  const Mad mad = written(CmRtu{});
  expect_bytes(mad, 0, {1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x14, 0, 0, 0, 0, 0, 0});
}

// IBA table 106, byte for byte.
TEST(CmMessage, request_as_bytes) {
  const Mad mad = written(full_request());
  expect_bytes(mad, 16, {0, 0x10});
  expect_bytes(mad, kBody, {0xa1, 0xa2, 0xa3, 0xa4, 0, 0, 0, 0});
  expect_bytes(mad, kBody + 8, {0, 0, 0, 0, 1, 0x06, 0x12, 0xb7});
  expect_bytes(mad, kBody + 16, {0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0, 0, 0, 0});
  expect_bytes(mad, kBody + 28, {0xc1, 0xc2, 0xc3, 0xc4, 0xd1, 0xd2, 0xd3, 0xe1, 0, 0, 0, 0xe2});
  expect_bytes(mad, kBody + 40, {0, 0, 0, 20 << 3 | 3 << 1 | 1, 0xf1, 0xf2, 0xf3, 31 << 3 | 7});
  expect_bytes(mad, kBody + 48, {0x7f, 0xff, 5 << 4 | 8 | 3, 15 << 4 | 8 | 1});
  expect_bytes(mad, kBody + 52, {0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1});
  expect_bytes(mad, kBody + 72, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2});
  expect_bytes(mad, kBody + 88, {0xfe, 0xdc, 0xb0, 0x3f, 0x12, 0x34, 9 << 4 | 8, 19 << 3, 0, 1, 0, 2});
  expect_bytes(mad, kBody + 138, {1 << 4 | 8, 19 << 3, 1, 2, 3});
  expect_bytes(mad, 255, {92});
}

TEST(CmMessage, request_has_permissive_lids_and_no_alternate_path) {
  const Mad mad = written(CmReq{});
  expect_bytes(mad, kBody + 52, {0xff, 0xff, 0xff, 0xff});
  for (size_t i = 96; i < 140; ++i) EXPECT_EQ(mad[kBody + i], std::byte{0}) << i;
}

TEST(CmMessage, request_comes_back) {
  const CmReq in = full_request();
  const CmReq m = back<CmReq>(in);
  EXPECT_EQ(m.local_id, in.local_id);
  EXPECT_EQ(m.service_id, in.service_id);
  EXPECT_EQ(m.local_ca_guid, in.local_ca_guid);
  EXPECT_EQ(m.local_qkey, in.local_qkey);
  EXPECT_EQ(m.local_qpn, in.local_qpn);
  EXPECT_EQ(m.responder_resources, in.responder_resources);
  EXPECT_EQ(m.initiator_depth, in.initiator_depth);
  EXPECT_EQ(m.remote_response_timeout, in.remote_response_timeout);
  EXPECT_EQ(m.transport, in.transport);
  EXPECT_TRUE(m.end_to_end_flow_control);
  EXPECT_EQ(m.starting_psn, in.starting_psn);
  EXPECT_EQ(m.local_response_timeout, in.local_response_timeout);
  EXPECT_EQ(m.retry_count, in.retry_count);
  EXPECT_EQ(m.pkey, in.pkey);
  EXPECT_EQ(m.path_mtu, in.path_mtu);
  EXPECT_TRUE(m.rdc_exists);
  EXPECT_EQ(m.rnr_retry_count, in.rnr_retry_count);
  EXPECT_EQ(m.max_cm_retries, in.max_cm_retries);
  EXPECT_TRUE(m.srq);
  EXPECT_EQ(m.extended_transport, 1);
  EXPECT_EQ(m.primary, in.primary);
  EXPECT_EQ(m.alternate, in.alternate);
  EXPECT_EQ(m.private_data, in.private_data);
}

// Table 110.
TEST(CmMessage, reply_as_bytes_and_back) {
  CmRep in;
  in.local_id = 0x01020304;
  in.remote_id = 0x05060708;
  in.local_qkey = 0x11121314;
  in.local_qpn = 0x212223;
  in.local_eecn = 0x313233;
  in.starting_psn = 0x414243;
  in.responder_resources = 0x51;
  in.initiator_depth = 0x52;
  in.target_ack_delay = 17;
  in.failover_accepted = 2;
  in.end_to_end_flow_control = true;
  in.rnr_retry_count = 5;
  in.srq = true;
  in.local_ca_guid = 0x6162636465666768;
  fill(in.private_data);
  const Mad mad = written(in);
  expect_bytes(mad, 16, {0, 0x13});
  expect_bytes(mad, kBody, {1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0});
  expect_bytes(mad, kBody + 16, {0x31, 0x32, 0x33, 0, 0x41, 0x42, 0x43, 0, 0x51, 0x52});
  expect_bytes(mad, kBody + 26, {17 << 3 | 2 << 1 | 1, 5 << 5 | 0x10, 0x61, 0x62, 0x63, 0x64});
  expect_bytes(mad, kBody + 36, {1, 2});
  expect_bytes(mad, 255, {196});
  const CmRep m = back<CmRep>(in);
  EXPECT_EQ(m.local_id, in.local_id);
  EXPECT_EQ(m.remote_id, in.remote_id);
  EXPECT_EQ(m.local_qkey, in.local_qkey);
  EXPECT_EQ(m.local_qpn, in.local_qpn);
  EXPECT_EQ(m.local_eecn, in.local_eecn);
  EXPECT_EQ(m.starting_psn, in.starting_psn);
  EXPECT_EQ(m.responder_resources, in.responder_resources);
  EXPECT_EQ(m.initiator_depth, in.initiator_depth);
  EXPECT_EQ(m.target_ack_delay, in.target_ack_delay);
  EXPECT_EQ(m.failover_accepted, in.failover_accepted);
  EXPECT_TRUE(m.end_to_end_flow_control);
  EXPECT_EQ(m.rnr_retry_count, in.rnr_retry_count);
  EXPECT_TRUE(m.srq);
  EXPECT_EQ(m.local_ca_guid, in.local_ca_guid);
  EXPECT_EQ(m.private_data, in.private_data);
}

// Tables 107 and 108.
TEST(CmMessage, mra_and_reject_as_bytes_and_back) {
  CmMra mra{1, 2, CmMessageKind::rep, 24, {}};
  fill(mra.private_data);
  const Mad mra_mad = written(mra);
  expect_bytes(mra_mad, 16, {0, 0x11});
  expect_bytes(mra_mad, kBody, {0, 0, 0, 1, 0, 0, 0, 2, 1 << 6, 24 << 3, 1});
  expect_bytes(mra_mad, 255, {222});
  const CmMra m = back<CmMra>(mra);
  EXPECT_EQ(m.of, CmMessageKind::rep);
  EXPECT_EQ(m.service_timeout, 24);
  EXPECT_EQ(m.private_data, mra.private_data);

  CmRej rej;
  rej.local_id = 3;
  rej.remote_id = 4;
  rej.of = CmMessageKind::other;
  rej.reason = CmRejectReason::stale_connection;
  rej.info_length = 8;
  rej.info[0] = 0x77;
  rej.info[71] = 0x78;
  fill(rej.private_data);
  const Mad rej_mad = written(rej);
  expect_bytes(rej_mad, 16, {0, 0x12});
  expect_bytes(rej_mad, kBody, {0, 0, 0, 3, 0, 0, 0, 4, 2 << 6, 8 << 1, 0, 10, 0x77});
  expect_bytes(rej_mad, kBody + 83, {0x78, 1, 2});
  const CmRej r = back<CmRej>(rej);
  EXPECT_EQ(r.local_id, 3u);
  EXPECT_EQ(r.remote_id, 4u);
  EXPECT_EQ(r.of, CmMessageKind::other);
  EXPECT_EQ(r.reason, CmRejectReason::stale_connection);
  EXPECT_EQ(r.info_length, 8);
  EXPECT_EQ(r.info, rej.info);
  EXPECT_EQ(r.private_data, rej.private_data);
}

// Tables 111 to 113.
TEST(CmMessage, ready_and_disconnect_as_bytes_and_back) {
  CmDreq dreq{1, 2, 0xabcdef, {}};
  fill(dreq.private_data);
  const Mad mad = written(dreq);
  expect_bytes(mad, 16, {0, 0x15});
  expect_bytes(mad, kBody, {0, 0, 0, 1, 0, 0, 0, 2, 0xab, 0xcd, 0xef, 0, 1, 2});
  const CmDreq m = back<CmDreq>(dreq);
  EXPECT_EQ(m.remote_qpn, 0xabcdefu);
  EXPECT_EQ(m.private_data, dreq.private_data);

  CmRtu rtu{5, 6, {}};
  fill(rtu.private_data);
  expect_bytes(written(rtu), kBody, {0, 0, 0, 5, 0, 0, 0, 6, 1});
  EXPECT_EQ(back<CmRtu>(rtu).private_data, rtu.private_data);
  CmDrep drep{7, 8, {}};
  fill(drep.private_data);
  expect_bytes(written(drep), 16, {0, 0x16});
  EXPECT_EQ(back<CmDrep>(drep).private_data, drep.private_data);
  EXPECT_EQ(back<CmDrep>(drep).remote_id, 8u);
}

// Tables 119 and 120.
TEST(CmMessage, service_resolution_as_bytes_and_back) {
  CmSidrReq req;
  req.request_id = 0x01020304;
  req.pkey = 0x8001;
  req.service_id = 0x1112131415161718;
  fill(req.private_data);
  const Mad req_mad = written(req);
  expect_bytes(req_mad, 16, {0, 0x17});
  expect_bytes(req_mad, kBody,
               {1, 2, 3, 4, 0x80, 1, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 1});
  EXPECT_EQ(back<CmSidrReq>(req).service_id, req.service_id);
  EXPECT_EQ(back<CmSidrReq>(req).private_data, req.private_data);

  CmSidrRep rep;
  rep.request_id = 9;
  rep.status = SidrStatus::no_qp;
  rep.info_length = 72;
  rep.qpn = 0x212223;
  rep.service_id = 0x3132333435363738;
  rep.qkey = 0x41424344;
  rep.info[71] = 0x51;
  fill(rep.private_data);
  const Mad rep_mad = written(rep);
  expect_bytes(rep_mad, 16, {0, 0x18});
  expect_bytes(rep_mad, kBody, {0, 0, 0, 9, 3, 72, 0, 0, 0x21, 0x22, 0x23, 0, 0x31, 0x32, 0x33, 0x34});
  expect_bytes(rep_mad, kBody + 20, {0x41, 0x42, 0x43, 0x44});
  expect_bytes(rep_mad, kBody + 95, {0x51, 1});
  const CmSidrRep m = back<CmSidrRep>(rep);
  EXPECT_EQ(m.status, SidrStatus::no_qp);
  EXPECT_EQ(m.qpn, rep.qpn);
  EXPECT_EQ(m.qkey, rep.qkey);
  EXPECT_EQ(m.service_id, rep.service_id);
  EXPECT_EQ(m.info, rep.info);
  EXPECT_EQ(m.private_data, rep.private_data);
}

TEST(CmMessage, fields_too_wide_do_not_spill_into_their_neighbours) {
  CmReq m;
  m.local_qpn = 0xff000000;
  m.remote_response_timeout = 0xe0;
  m.retry_count = 0xf8;
  m.primary.flow_label = 0xfff00000;
  m.primary.packet_rate = 0xc0;
  m.rnr_retry_count = 8;
  m.max_cm_retries = 0x10;
  const CmReq out = back<CmReq>(m);
  EXPECT_EQ(out.local_qpn, 0u);
  EXPECT_EQ(out.remote_response_timeout, 0);
  EXPECT_EQ(out.retry_count, 0);
  EXPECT_EQ(out.local_response_timeout, 0);
  EXPECT_FALSE(out.rdc_exists);
  EXPECT_EQ(out.primary.flow_label, 0u);
  EXPECT_EQ(out.primary.packet_rate, 0);
  EXPECT_EQ(out.max_cm_retries, 0);
}

TEST(CmMessage, information_longer_than_its_room_is_cut) {
  Mad rej = written(CmRej{});
  rej[kBody + 9] = std::byte{0xff};
  Mad sidr = written(CmSidrRep{});
  sidr[kBody + 5] = std::byte{0xff};
  CmMessage out;
  uint64_t transaction;
  ASSERT_EQ(parse_cm(rej, out, transaction), CmParseError::none);
  EXPECT_EQ(std::get<CmRej>(out).info_length, 72);
  ASSERT_EQ(parse_cm(sidr, out, transaction), CmParseError::none);
  EXPECT_EQ(std::get<CmSidrRep>(out).info_length, 72);
}

TEST(CmMessage, what_is_no_message_of_ours_has_a_reason) {
  CmMessage out;
  uint64_t transaction;
  const Mad good = written(CmRtu{});
  EXPECT_EQ(parse_cm(std::span(good).first(255), out, transaction), CmParseError::bad_length);
  EXPECT_EQ(parse_cm({}, out, transaction), CmParseError::bad_length);
  EXPECT_EQ(parse_cm(std::vector<std::byte>(260), out, transaction), CmParseError::bad_length);
  const auto with = [&](size_t at, int value) {
    Mad mad = good;
    mad[at] = static_cast<std::byte>(value);
    return parse_cm(mad, out, transaction);
  };
  EXPECT_EQ(with(0, 2), CmParseError::bad_version);
  EXPECT_EQ(with(1, 1), CmParseError::bad_class);
  EXPECT_EQ(with(2, 1), CmParseError::bad_class);
  EXPECT_EQ(with(3, 1), CmParseError::bad_method);
  EXPECT_EQ(with(3, 0x83), CmParseError::bad_method);
  EXPECT_EQ(with(17, 0x19), CmParseError::unknown_attribute);  // LAP
  EXPECT_EQ(with(17, 0x0f), CmParseError::unknown_attribute);
  EXPECT_EQ(with(16, 1), CmParseError::unknown_attribute);
  EXPECT_STRNE(to_string(CmParseError::bad_class), "?");
}

TEST(PrivateData, takes_no_more_than_its_room) {
  PrivateData<8> data;
  const std::array<uint8_t, 8> eight = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_TRUE(data.put(eight));
  EXPECT_FALSE(data.put(eight, 1));
  EXPECT_FALSE(data.put(std::span(eight).first(1), 9));
  EXPECT_TRUE(data.put({}, 8));
  EXPECT_EQ(data.bytes, eight);
}

TEST(CmIpHeader, ipv4_stands_in_the_last_four_bytes) {
  CmIpHeader header;
  header.ipv4 = true;
  header.source_port = 0x1234;
  header.source = Gid::from_ipv4_be(0x0100000a);
  header.destination = Gid::from_ipv4_be(0x0200000a);
  std::array<uint8_t, kIpHeaderBytes> bytes;
  write_ip_header(header, bytes);
  const std::array<uint8_t, kIpHeaderBytes> wanted = {0, 0x40, 0x12, 0x34, 0,  0, 0, 0, 0,  0, 0, 0,
                                                      0, 0,    0,    0,    10, 0, 0, 1, 0,  0, 0, 0,
                                                      0, 0,    0,    0,    0,  0, 0, 0, 10, 0, 0, 2};
  EXPECT_EQ(bytes, wanted);
  CmIpHeader out;
  ASSERT_TRUE(parse_ip_header(bytes, out));
  EXPECT_EQ(out, header);
}

TEST(CmIpHeader, ipv6_and_what_is_neither) {
  CmIpHeader header;
  header.source_port = 1;
  header.source.raw = {0xfe, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  header.destination.raw = {0x20, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15};
  std::array<uint8_t, kIpHeaderBytes> bytes;
  write_ip_header(header, bytes);
  EXPECT_EQ(bytes[1], 0x60);
  CmIpHeader out;
  ASSERT_TRUE(parse_ip_header(bytes, out));
  EXPECT_EQ(out, header);
  EXPECT_FALSE(parse_ip_header(std::span(bytes).first(35), out));
  bytes[1] = 0x50;
  EXPECT_FALSE(parse_ip_header(bytes, out));
  bytes[1] = 0x60;
  bytes[0] = 0x10;
  EXPECT_FALSE(parse_ip_header(bytes, out));
}

TEST(ServiceId, names_port_space_and_port) {
  EXPECT_EQ(ip_service_id(0x0106, 0x1234), 0x0000000001061234u);
  EXPECT_EQ(ip_service_id(0x013f, 0xffff), 0x00000000013fffffu);
}

}  // namespace
}  // namespace uroce::wire
