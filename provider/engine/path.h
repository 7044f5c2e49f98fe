// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the engine and a transport say to each other: where packets go, batches of packets out, and what is
// known of a packet in. Pure data: no socket, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "provider/wire/address.h"
#include "provider/wire/number.h"
#include "provider/wire/packet.h"

namespace uroce::engine {

// Nanoseconds of some monotonic clock; the engine never reads one.
struct Time {
  int64_t ns = 0;
  constexpr auto operator<=>(const Time&) const = default;
  constexpr Time operator+(int64_t d) const { return Time{ns + d}; }
  constexpr int64_t operator-(Time other) const { return ns - other.ns; }
};

// A resolved address vector, interned by the transport; the engine stores and compares it only.
struct PathId {
  uint32_t value = 0;  // 0: none
  constexpr bool operator==(const PathId&) const = default;
};

// Address vector as verbs give it, with the source GID looked up.
struct Path {
  wire::Gid source;
  wire::Gid destination;
  uint8_t traffic_class = 0;  // DSCP and ECN bits
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;
  uint32_t ifindex =
      0;  // netdev of the source GID: scope of link-local addresses, outgoing interface of multicast
  bool operator==(const Path&) const = default;
};

// One burst of packets, written by the engine straight into the buffer that leaves. Packets of one path that
// follow each other stand back to back, each with 4 bytes behind it for the ICRC, so that a transport can
// send a run of equal packets as one segmented datagram without copying.
class TxBatch {
 public:
  struct Entry {
    PathId path;
    wire::Qpn dest_qpn;
    uint32_t offset;  // of the BTH in the buffer
    uint32_t length;  // BTH .. pad, without the ICRC
  };
  static constexpr size_t kMaxEntries = 512;
  static constexpr size_t kMaxPacket = 4096 + 64;  // headers and payload of the largest path MTU

  // `storage` is owned by the caller and outlives the batch.
  explicit TxBatch(std::span<std::byte> storage) : storage_(storage) {}

  // Room for a packet of at most `max_bytes`, or nullptr when the batch is full. Nothing is taken until
  // commit().
  std::byte* reserve(size_t max_bytes) {
    if (count_ == kMaxEntries || used_ + max_bytes + wire::kIcrcBytes > storage_.size()) return nullptr;
    return storage_.data() + used_;
  }
  // Takes the packet written at the last reserve(). `bytes` is a multiple of 4 (IBA pads).
  void commit(PathId path, wire::Qpn dest_qpn, size_t bytes) {
    entries_[count_++] = {path, dest_qpn, static_cast<uint32_t>(used_), static_cast<uint32_t>(bytes)};
    used_ += bytes + wire::kIcrcBytes;
  }
  void clear() { count_ = 0, used_ = 0; }
  bool empty() const { return count_ == 0; }
  size_t bytes() const { return used_; }
  std::span<const Entry> entries() const { return {entries_, count_}; }
  std::byte* data() { return storage_.data(); }
  const std::byte* data() const { return storage_.data(); }

 private:
  std::span<std::byte> storage_;
  size_t used_ = 0;
  size_t count_ = 0;
  Entry entries_[kMaxEntries];
};

// What a transport knows of a packet that arrived.
struct RxMeta {
  wire::Gid source;  // as seen in the IP header
  wire::Gid destination;
  uint32_t ifindex = 0;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  bool congestion_experienced() const { return (traffic_class & 3) == 3; }
};

}  // namespace uroce::engine
