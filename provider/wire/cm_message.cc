// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Offsets below are those of IBA 12.6.5 - 12.6.11: from the end of the MAD header (13.4.2), which has 24
// bytes.
#include "provider/wire/cm_message.h"

#include <algorithm>

#include "provider/wire/byte_order.h"

namespace uroce::wire {
namespace {

constexpr uint8_t kBaseVersion = 1;
constexpr uint8_t kClassVersion = 2;
constexpr uint8_t kMethodSend = 3;
constexpr size_t kMadHeaderBytes = 24;
constexpr size_t kMaxInfo = 72;

enum Attribute : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
};

class Reader {
 public:
  explicit Reader(const std::byte* mad) : p_(mad + kMadHeaderBytes) {}
  uint8_t u8(size_t at) const { return std::to_integer<uint8_t>(p_[at]); }
  uint16_t u16(size_t at) const { return load_be16(p_ + at); }
  uint32_t u32(size_t at) const { return load_be32(p_ + at); }
  uint64_t u64(size_t at) const { return load_be64(p_ + at); }
  uint32_t u24(size_t at) const { return u32(at) >> 8; }
  template <size_t Bytes>
  void bytes(size_t at, std::array<uint8_t, Bytes>& out) const {
    std::memcpy(out.data(), p_ + at, Bytes);
  }

 private:
  const std::byte* p_;
};

class Writer {
 public:
  explicit Writer(std::byte* mad) : p_(mad + kMadHeaderBytes) {}
  void u8(size_t at, uint32_t v) { p_[at] = static_cast<std::byte>(v); }
  void u16(size_t at, uint16_t v) { store_be16(p_ + at, v); }
  void u32(size_t at, uint32_t v) { store_be32(p_ + at, v); }
  void u64(size_t at, uint64_t v) { store_be64(p_ + at, v); }
  // 24 bits and the byte behind them.
  void u24(size_t at, uint32_t v, uint8_t low = 0) { u32(at, (v << 8) | low); }
  template <size_t Bytes>
  void bytes(size_t at, const std::array<uint8_t, Bytes>& in) {
    std::memcpy(p_ + at, in.data(), Bytes);
  }

 private:
  std::byte* p_;
};

CmPath read_path(const Reader& r, size_t at) {
  CmPath path;
  path.local_lid = r.u16(at);
  path.remote_lid = r.u16(at + 2);
  r.bytes(at + 4, path.local_gid.raw);
  r.bytes(at + 20, path.remote_gid.raw);
  path.flow_label = r.u32(at + 36) >> 12;
  path.packet_rate = r.u8(at + 39) & 0x3f;
  path.traffic_class = r.u8(at + 40);
  path.hop_limit = r.u8(at + 41);
  path.sl = r.u8(at + 42) >> 4;
  path.subnet_local = r.u8(at + 42) & 8;
  path.local_ack_timeout = r.u8(at + 43) >> 3;
  return path;
}

void write_path(Writer& w, size_t at, const CmPath& path) {
  w.u16(at, path.local_lid);
  w.u16(at + 2, path.remote_lid);
  w.bytes(at + 4, path.local_gid.raw);
  w.bytes(at + 20, path.remote_gid.raw);
  w.u32(at + 36, path.flow_label << 12 | (path.packet_rate & 0x3f));
  w.u8(at + 40, path.traffic_class);
  w.u8(at + 41, path.hop_limit);
  w.u8(at + 42, (path.sl & 15u) << 4 | (path.subnet_local ? 8 : 0));
  w.u8(at + 43, path.local_ack_timeout << 3);
}

CmReq read_req(const Reader& r) {
  CmReq m;
  m.local_id = r.u32(0);
  m.service_id = r.u64(8);
  m.local_ca_guid = r.u64(16);
  m.local_qkey = r.u32(28);
  m.local_qpn = r.u24(32);
  m.responder_resources = r.u8(35);
  m.initiator_depth = r.u8(39);
  m.remote_response_timeout = r.u8(43) >> 3;
  m.transport = static_cast<CmTransport>((r.u8(43) >> 1) & 3);
  m.end_to_end_flow_control = r.u8(43) & 1;
  m.starting_psn = r.u24(44);
  m.local_response_timeout = r.u8(47) >> 3;
  m.retry_count = r.u8(47) & 7;
  m.pkey = r.u16(48);
  m.path_mtu = r.u8(50) >> 4;
  m.rdc_exists = r.u8(50) & 8;
  m.rnr_retry_count = r.u8(50) & 7;
  m.max_cm_retries = r.u8(51) >> 4;
  m.srq = r.u8(51) & 8;
  m.extended_transport = r.u8(51) & 7;
  m.primary = read_path(r, 52);
  m.alternate = read_path(r, 96);
  r.bytes(140, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmReq& m) {
  w.u32(0, m.local_id);
  w.u64(8, m.service_id);
  w.u64(16, m.local_ca_guid);
  w.u32(28, m.local_qkey);
  w.u24(32, m.local_qpn, m.responder_resources);
  w.u24(36, 0, m.initiator_depth);
  w.u8(43, static_cast<uint32_t>(m.remote_response_timeout) << 3 |
               (static_cast<uint32_t>(m.transport) & 3) << 1 | (m.end_to_end_flow_control ? 1 : 0));
  w.u24(44, m.starting_psn, static_cast<uint8_t>(m.local_response_timeout << 3 | (m.retry_count & 7)));
  w.u16(48, m.pkey);
  w.u8(50, (m.path_mtu & 15u) << 4 | (m.rdc_exists ? 8 : 0) | (m.rnr_retry_count & 7u));
  w.u8(51, (m.max_cm_retries & 15u) << 4 | (m.srq ? 8 : 0) | (m.extended_transport & 7u));
  write_path(w, 52, m.primary);
  write_path(w, 96, m.alternate);
  w.bytes(140, m.private_data.bytes);
  return kReq;
}

CmMra read_mra(const Reader& r) {
  CmMra m;
  m.local_id = r.u32(0);
  m.remote_id = r.u32(4);
  m.of = static_cast<CmMessageKind>(r.u8(8) >> 6);
  m.service_timeout = r.u8(9) >> 3;
  r.bytes(10, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmMra& m) {
  w.u32(0, m.local_id);
  w.u32(4, m.remote_id);
  w.u8(8, static_cast<uint32_t>(m.of) << 6);
  w.u8(9, m.service_timeout << 3);
  w.bytes(10, m.private_data.bytes);
  return kMra;
}

CmRej read_rej(const Reader& r) {
  CmRej m;
  m.local_id = r.u32(0);
  m.remote_id = r.u32(4);
  m.of = static_cast<CmMessageKind>(r.u8(8) >> 6);
  m.info_length = std::min<uint8_t>(r.u8(9) >> 1, kMaxInfo);
  m.reason = static_cast<CmRejectReason>(r.u16(10));
  r.bytes(12, m.info);
  r.bytes(84, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmRej& m) {
  w.u32(0, m.local_id);
  w.u32(4, m.remote_id);
  w.u8(8, static_cast<uint32_t>(m.of) << 6);
  w.u8(9, m.info_length << 1);
  w.u16(10, static_cast<uint16_t>(m.reason));
  w.bytes(12, m.info);
  w.bytes(84, m.private_data.bytes);
  return kRej;
}

CmRep read_rep(const Reader& r) {
  CmRep m;
  m.local_id = r.u32(0);
  m.remote_id = r.u32(4);
  m.local_qkey = r.u32(8);
  m.local_qpn = r.u24(12);
  m.local_eecn = r.u24(16);
  m.starting_psn = r.u24(20);
  m.responder_resources = r.u8(24);
  m.initiator_depth = r.u8(25);
  m.target_ack_delay = r.u8(26) >> 3;
  m.failover_accepted = (r.u8(26) >> 1) & 3;
  m.end_to_end_flow_control = r.u8(26) & 1;
  m.rnr_retry_count = r.u8(27) >> 5;
  m.srq = r.u8(27) & 0x10;
  m.local_ca_guid = r.u64(28);
  r.bytes(36, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmRep& m) {
  w.u32(0, m.local_id);
  w.u32(4, m.remote_id);
  w.u32(8, m.local_qkey);
  w.u24(12, m.local_qpn);
  w.u24(16, m.local_eecn);
  w.u24(20, m.starting_psn);
  w.u8(24, m.responder_resources);
  w.u8(25, m.initiator_depth);
  w.u8(26, static_cast<uint32_t>(m.target_ack_delay) << 3 | (m.failover_accepted & 3u) << 1 |
               (m.end_to_end_flow_control ? 1 : 0));
  w.u8(27, static_cast<uint32_t>(m.rnr_retry_count) << 5 | (m.srq ? 0x10 : 0));
  w.u64(28, m.local_ca_guid);
  w.bytes(36, m.private_data.bytes);
  return kRep;
}

CmRtu read_rtu(const Reader& r) {
  CmRtu m;
  m.local_id = r.u32(0);
  m.remote_id = r.u32(4);
  r.bytes(8, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmRtu& m) {
  w.u32(0, m.local_id);
  w.u32(4, m.remote_id);
  w.bytes(8, m.private_data.bytes);
  return kRtu;
}

CmDreq read_dreq(const Reader& r) {
  CmDreq m;
  m.local_id = r.u32(0);
  m.remote_id = r.u32(4);
  m.remote_qpn = r.u24(8);
  r.bytes(12, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmDreq& m) {
  w.u32(0, m.local_id);
  w.u32(4, m.remote_id);
  w.u24(8, m.remote_qpn);
  w.bytes(12, m.private_data.bytes);
  return kDreq;
}

CmDrep read_drep(const Reader& r) {
  CmDrep m;
  m.local_id = r.u32(0);
  m.remote_id = r.u32(4);
  r.bytes(8, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmDrep& m) {
  w.u32(0, m.local_id);
  w.u32(4, m.remote_id);
  w.bytes(8, m.private_data.bytes);
  return kDrep;
}

CmSidrReq read_sidr_req(const Reader& r) {
  CmSidrReq m;
  m.request_id = r.u32(0);
  m.pkey = r.u16(4);
  m.service_id = r.u64(8);
  r.bytes(16, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmSidrReq& m) {
  w.u32(0, m.request_id);
  w.u16(4, m.pkey);
  w.u64(8, m.service_id);
  w.bytes(16, m.private_data.bytes);
  return kSidrReq;
}

CmSidrRep read_sidr_rep(const Reader& r) {
  CmSidrRep m;
  m.request_id = r.u32(0);
  m.status = static_cast<SidrStatus>(r.u8(4));
  m.info_length = std::min<uint8_t>(r.u8(5), kMaxInfo);
  m.qpn = r.u24(8);
  m.service_id = r.u64(12);
  m.qkey = r.u32(20);
  r.bytes(24, m.info);
  r.bytes(96, m.private_data.bytes);
  return m;
}

Attribute write_body(Writer& w, const CmSidrRep& m) {
  w.u32(0, m.request_id);
  w.u8(4, static_cast<uint32_t>(m.status));
  w.u8(5, m.info_length);
  w.u24(8, m.qpn);
  w.u64(12, m.service_id);
  w.u32(20, m.qkey);
  w.bytes(24, m.info);
  w.bytes(96, m.private_data.bytes);
  return kSidrRep;
}

}  // namespace

const char* to_string(CmParseError error) {
  switch (error) {
    case CmParseError::none: return "none";
    case CmParseError::bad_length: return "not 256 bytes long";
    case CmParseError::bad_version: return "unknown MAD base version";
    case CmParseError::bad_class: return "not communication management of class version 2";
    case CmParseError::bad_method: return "a method other than Send";
    case CmParseError::unknown_attribute: return "unknown or unsupported message";
  }
  return "?";
}

CmParseError parse_cm(std::span<const std::byte> mad, CmMessage& out, uint64_t& transaction) {
  if (mad.size() != kMadBytes) return CmParseError::bad_length;
  if (mad[0] != std::byte{kBaseVersion}) return CmParseError::bad_version;
  if (mad[1] != std::byte{kCmClass} || mad[2] != std::byte{kClassVersion}) return CmParseError::bad_class;
  if (mad[3] != std::byte{kMethodSend}) return CmParseError::bad_method;
  transaction = load_be64(mad.data() + 8);
  const Reader r(mad.data());
  switch (load_be16(mad.data() + 16)) {
    case kReq: out = read_req(r); break;
    case kMra: out = read_mra(r); break;
    case kRej: out = read_rej(r); break;
    case kRep: out = read_rep(r); break;
    case kRtu: out = read_rtu(r); break;
    case kDreq: out = read_dreq(r); break;
    case kDrep: out = read_drep(r); break;
    case kSidrReq: out = read_sidr_req(r); break;
    case kSidrRep: out = read_sidr_rep(r); break;
    default: return CmParseError::unknown_attribute;  // LAP and APR too: RoCE has no alternate paths
  }
  return CmParseError::none;
}

void write_cm(const CmMessage& message, uint64_t transaction, Mad& out) {
  out.fill(std::byte{0});
  out[0] = std::byte{kBaseVersion};
  out[1] = std::byte{kCmClass};
  out[2] = std::byte{kClassVersion};
  out[3] = std::byte{kMethodSend};
  store_be64(out.data() + 8, transaction);
  Writer w(out.data());
  const Attribute attribute = std::visit([&](const auto& m) { return write_body(w, m); }, message);
  store_be16(out.data() + 16, attribute);
}

// Annex A11.3: version byte (major 0, minor 0), IP version in the high nibble, port, both addresses.
bool parse_ip_header(std::span<const uint8_t> private_data, CmIpHeader& out) {
  if (private_data.size() < kIpHeaderBytes || private_data[0] != 0) return false;
  const uint8_t family = private_data[1] >> 4;
  if (family != 4 && family != 6) return false;
  out.ipv4 = family == 4;
  out.source_port = static_cast<uint16_t>(private_data[2] << 8 | private_data[3]);
  const size_t skip = out.ipv4 ? 12 : 0;
  out.source = out.destination = out.ipv4 ? Gid::from_ipv4_be(0) : Gid{};
  std::copy_n(private_data.begin() + 4 + skip, 16 - skip, out.source.raw.begin() + skip);
  std::copy_n(private_data.begin() + 20 + skip, 16 - skip, out.destination.raw.begin() + skip);
  return true;
}

void write_ip_header(const CmIpHeader& header, std::span<uint8_t, kIpHeaderBytes> out) {
  std::fill(out.begin(), out.end(), uint8_t{0});
  out[1] = header.ipv4 ? 0x40 : 0x60;
  out[2] = static_cast<uint8_t>(header.source_port >> 8);
  out[3] = static_cast<uint8_t>(header.source_port);
  const size_t skip = header.ipv4 ? 12 : 0;
  std::copy(header.source.raw.begin() + skip, header.source.raw.end(), out.begin() + 4 + skip);
  std::copy(header.destination.raw.begin() + skip, header.destination.raw.end(), out.begin() + 20 + skip);
}

}  // namespace uroce::wire
