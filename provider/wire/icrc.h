// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The invariant CRC of RoCEv2 (annex A17.3.3): CRC-32 over 8 bytes of ones, the IP header, the UDP header and
// the transport packet, with the fields that may change on the way masked to ones (IPv4: TOS, TTL, header
// checksum; IPv6: traffic class, flow label, hop limit; both: UDP checksum; BTH: the resv8a byte with
// FECN/BECN). It stands behind the packet in little-endian order.
//
// IPv4's Identification and total length are covered. CRC is linear, so the state after the constant prefix
// of a flow is computed once; length and Identification of a packet are XORed in through small tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "provider/wire/address.h"

namespace uroce::wire {

// The prefix of one flow: what does not change from packet to packet. Cheap to copy, immutable. Both GIDs of
// one family.
class IcrcFlow {
 public:
  IcrcFlow(const Gid& source, const Gid& destination, uint16_t source_port, uint16_t destination_port);

  // ICRC of `packet` (BTH .. pad). `identification` is ignored for IPv6. DF is taken as set.
  uint32_t compute(std::span<const std::byte> packet, uint16_t identification) const;

  // Finds the IPv4 Identification with which `icrc` is right: nullopt when there is none. Any of 65,536
  // values is accepted, which leaves a 16-bit check (and still detects every single-bit error). A right
  // `guess` is cheaper. IPv6: 0 when right.
  std::optional<uint16_t> solve_identification(std::span<const std::byte> packet, uint32_t icrc,
                                               uint16_t guess) const;

 private:
  uint32_t base_state_ = 0;
  bool ipv4_ = false;
};

// The ICRC stands in the packet's last four bytes, little-endian.
inline uint32_t load_icrc(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
inline void store_icrc(std::byte* p, uint32_t v) {
  std::memcpy(p, &v, 4);
}

}  // namespace uroce::wire
