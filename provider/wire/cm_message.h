// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Communication management MADs (IBA 12.6): bytes <-> structs. A MAD is 256 bytes; everything is big-endian
// on the wire and host order here. Private data has the fixed size that its message gives it and is zeroed
// behind what was set. Reserved fields are written as zero and not looked at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <variant>

#include "provider/wire/address.h"

namespace uroce::wire {

inline constexpr size_t kMadBytes = 256;
inline constexpr uint8_t kCmClass = 0x07;
inline constexpr uint32_t kGsiQpn = 1;
inline constexpr uint32_t kGsiQkey = 0x80010000;

using Mad = std::array<std::byte, kMadBytes>;

template <size_t Bytes>
struct PrivateData {
  std::array<uint8_t, Bytes> bytes{};
  static constexpr size_t kRoom = Bytes;
  // Puts `data` at `offset`; false: no room.
  bool put(std::span<const uint8_t> data, size_t offset = 0) {
    if (offset > Bytes || data.size() > Bytes - offset) return false;
    if (!data.empty()) std::memcpy(bytes.data() + offset, data.data(), data.size());
    return true;
  }
  bool operator==(const PrivateData&) const = default;
};

enum class CmTransport : uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };  // extended 1: XRC

struct CmPath {  // primary or alternate of a REQ
  uint16_t local_lid = 0, remote_lid = 0;
  Gid local_gid, remote_gid;  // of the sender of the REQ; of its recipient
  uint32_t flow_label = 0;    // 20 bits
  uint8_t packet_rate = 0;    // 6 bits
  uint8_t traffic_class = 0, hop_limit = 0;
  uint8_t sl = 0;  // 4 bits
  bool subnet_local = false;
  uint8_t local_ack_timeout = 0;  // 5 bits: 4.096 us * 2^n
  bool operator==(const CmPath&) const = default;

  static CmPath permissive() {  // LIDs as RoCE has them
    CmPath path;
    path.local_lid = path.remote_lid = 0xffff;
    return path;
  }
};

struct CmReq {
  uint32_t local_id = 0;
  uint64_t service_id = 0;
  uint64_t local_ca_guid = 0;
  uint32_t local_qkey = 0;
  uint32_t local_qpn = 0;  // 24 bits
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t remote_response_timeout = 0;  // 5 bits: what the recipient may take to answer
  CmTransport transport = CmTransport::rc;
  bool end_to_end_flow_control = false;
  uint32_t starting_psn = 0;
  uint8_t local_response_timeout = 0;  // 5 bits: what the sender may take to answer
  uint8_t retry_count = 0;             // 3 bits
  uint16_t pkey = 0xffff;
  uint8_t path_mtu = 0;  // enum ibv_mtu
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;  // 4 bits
  bool srq = false;
  uint8_t extended_transport = 0;  // 3 bits; 1: XRC
  CmPath primary = CmPath::permissive();
  CmPath alternate;  // all zero: none; Linux goes by the LID and refuses one without a GID of its own
  PrivateData<92> private_data;
};

enum class CmMessageKind : uint8_t {
  req = 0,
  rep = 1,
  other = 2
};  // of MRA and REJ: which message it answers

struct CmMra {
  uint32_t local_id = 0, remote_id = 0;
  CmMessageKind of = CmMessageKind::req;
  uint8_t service_timeout = 0;  // 5 bits
  PrivateData<222> private_data;
};

enum class CmRejectReason : uint16_t {  // IBA 12.6.7.2
  no_qp = 1,
  no_eec = 2,
  no_resources = 3,
  timeout = 4,
  unsupported = 5,
  invalid_comm_id = 6,
  invalid_comm_instance = 7,
  invalid_service_id = 8,
  invalid_transport_type = 9,
  stale_connection = 10,
  rdc_not_exist = 11,
  invalid_gid = 12,
  invalid_lid = 13,
  invalid_sl = 14,
  invalid_traffic_class = 15,
  invalid_hop_limit = 16,
  invalid_packet_rate = 17,
  invalid_alternate_gid = 18,
  port_redirect = 24,
  invalid_mtu = 26,
  insufficient_responder_resources = 27,
  consumer_defined = 28,
  invalid_rnr_retry = 29,
  duplicate_local_comm_id = 30,
  invalid_class_version = 31,
  invalid_flow_label = 32,
  vendor_option_not_supported = 35,
};

struct CmRej {
  uint32_t local_id = 0, remote_id = 0;
  CmMessageKind of = CmMessageKind::req;
  CmRejectReason reason{};
  uint8_t info_length = 0;  // of `info`; 7 bits, at most 72 after parsing
  std::array<uint8_t, 72> info{};
  PrivateData<148> private_data;
};

struct CmRep {
  uint32_t local_id = 0, remote_id = 0;
  uint32_t local_qkey = 0;
  uint32_t local_qpn = 0;   // 24 bits
  uint32_t local_eecn = 0;  // 24 bits; the QPN of an XRC target, with local_qpn 0
  uint32_t starting_psn = 0;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t target_ack_delay = 0;  // 5 bits
  uint8_t failover_accepted = 0;
  bool end_to_end_flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t local_ca_guid = 0;
  PrivateData<196> private_data;
};

struct CmRtu {
  uint32_t local_id = 0, remote_id = 0;
  PrivateData<224> private_data;
};

struct CmDreq {
  uint32_t local_id = 0, remote_id = 0;
  uint32_t remote_qpn = 0;
  PrivateData<220> private_data;
};

struct CmDrep {
  uint32_t local_id = 0, remote_id = 0;
  PrivateData<224> private_data;
};

struct CmSidrReq {
  uint32_t request_id = 0;
  uint16_t pkey = 0xffff;
  uint64_t service_id = 0;
  PrivateData<216> private_data;
};

enum class SidrStatus : uint8_t {
  valid = 0,
  unsupported = 1,
  rejected = 2,
  no_qp = 3,
  redirect = 4,
  unsupported_version = 5,
};

struct CmSidrRep {
  uint32_t request_id = 0;
  SidrStatus status{};
  uint8_t info_length = 0;  // of `info`; at most 72 after parsing
  uint32_t qpn = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  std::array<uint8_t, 72> info{};
  PrivateData<136> private_data;
};

using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep>;

enum class CmParseError : uint8_t {
  none,
  bad_length,   // not 256 bytes
  bad_version,  // base version is not 1
  bad_class,    // not communication management, or class version is not 2
  bad_method,   // not Send
  unknown_attribute,
};
const char* to_string(CmParseError error);

// `out` and `transaction` are unspecified on an error.
CmParseError parse_cm(std::span<const std::byte> mad, CmMessage& out, uint64_t& transaction);
void write_cm(const CmMessage& message, uint64_t transaction, Mad& out);

// ---- what IP applications put in front of their private data (annex A11.3) and how they name services

inline constexpr size_t kIpHeaderBytes = 36;

struct CmIpHeader {
  bool ipv4 = false;
  uint16_t source_port = 0;
  Gid source, destination;  // IPv4 as ::ffff:a.b.c.d
  bool operator==(const CmIpHeader&) const = default;
};
// False: version or family unknown.
bool parse_ip_header(std::span<const uint8_t> private_data, CmIpHeader& out);
void write_ip_header(const CmIpHeader& header, std::span<uint8_t, kIpHeaderBytes> out);

constexpr uint64_t ip_service_id(uint16_t port_space, uint16_t port) {
  return (static_cast<uint64_t>(port_space) << 16) + port;
}

}  // namespace uroce::wire
