// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// How frames leave and arrive. One transport object belongs to one lane and is used by whoever holds that
// lane; no member may be called concurrently unless it says so. No member throws or allocates on the send and
// receive paths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "provider/engine/path.h"

namespace uroce::transport {

// Every packet a transport does not deliver or send has one of these reasons, counted.
enum class Drop : uint8_t {
  too_short,  // no room for a BTH and an ICRC
  bad_icrc,
  foreign_destination,  // to an address that is not a GID of ours: counted by the engine's caller
  other_slot,           // a segment of another slot in our buffer, handed on
  other_slot_lost,      // the same, and handing on failed
  send_no_buffer,       // EAGAIN/ENOBUFS for good: the packet is lost, the protocol recovers
  send_too_big,         // EMSGSIZE: the netdev's MTU is below the path MTU
  send_unreachable,     // ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, ENETDOWN ...
  send_failed,          // any other errno
  truncated,            // MSG_TRUNC
  kCount
};
const char* to_string(Drop reason);

struct Counters {
  std::array<uint64_t, static_cast<size_t>(Drop::kCount)> drops{};
  uint64_t sent_packets = 0;
  uint64_t sent_bytes = 0;  // transport packets without ICRC
  uint64_t sent_calls = 0;  // system calls
  uint64_t received_packets = 0;
  uint64_t received_bytes = 0;
  uint64_t received_calls = 0;
};

// Receives what arrived. `packet` is BTH .. pad, checked, ICRC cut off; valid during the call only.
class PacketSink {
 public:
  virtual void on_packet(std::span<const std::byte> packet, const engine::RxMeta& meta) = 0;

 protected:
  ~PacketSink() = default;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Address vectors. Interning the same path twice gives the same id; each intern needs one release. Returns
  // id 0 when the path cannot work here (family not available): errno says why. Not on the data path; may
  // allocate.
  virtual engine::PathId intern(const engine::Path& path) = 0;
  virtual void release(engine::PathId id) = 0;
  // The path of a valid id.
  virtual const engine::Path& path(engine::PathId id) const = 0;

  // Sends the batch: computes each ICRC in place, groups equal packets of one destination. Returns how many
  // entries were taken, from the front: sent, or dropped with a counted reason. Fewer than all means "no
  // buffer now": call again with the rest
  // (`first` = index of the first entry to send) when writable, at most a millisecond later.
  virtual size_t send(engine::TxBatch& batch, size_t first) = 0;

  // Takes at most one system call's worth of packets. Returns how many packets were given to `sink` (0:
  // nothing there).
  virtual size_t receive(PacketSink& sink) = 0;

  // Readable when receive() has something; -1 when the transport must be polled.
  virtual int wait_descriptor() const = 0;

  // Kernel-side membership (IGMP, MLD) of a multicast group on a netdev, counted: each join needs one leave.
  // 0 or errno. Not on the data path.
  virtual int join_group(const wire::Gid& group, uint32_t ifindex) = 0;
  virtual int leave_group(const wire::Gid& group, uint32_t ifindex) = 0;

  // Bytes that the kernel lets pile up before receive() takes them, its own overhead included.
  virtual size_t receive_buffer() const = 0;

  virtual const Counters& counters() const = 0;

  // One line for `uroce status`: what is used, what had to be left out and why, e.g. "udp, GSO 128 segments,
  // GRO, receive buffer 65536 KiB".
  virtual std::string describe() const = 0;
  // Rises whenever describe() has something new to say.
  virtual uint32_t description() const = 0;
};

}  // namespace uroce::transport
