// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Transport udp: plain UDP sockets, no privilege. One receive socket on port 4791 (a member of the
// namespace's reuseport group, handed out by uroced) and a pool of send-only sockets on ephemeral ports,
// chosen by the destination's slot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "provider/transport/transport.h"

namespace uroce::transport {

struct UdpConfig {
  int receive_socket = -1;  // owned from here on; AF_INET6 dual-stack, or AF_INET where IPv6 is off
  uint32_t slot = 0;        // packets for other slots are handed to `other_slot`
  size_t send_sockets = 8;
  bool segmentation = true;  // false: never try UDP_SEGMENT (UROCE_UDP_GSO=0, tests)
  bool coalescing = true;    // UDP_GRO
  // A packet whose QPN belongs to another slot (peers may use one source port for several slots, so a GRO
  // buffer can mix them). Gets BTH .. pad, the meta and that slot; returns false when it could not be handed
  // on. May be empty: then such packets are dropped.
  std::function<bool(std::span<const std::byte> packet, const engine::RxMeta& meta, uint32_t slot)>
      other_slot;
};

// nullptr with errno set when sockets cannot be made; `why` then has the sentence for a person.
std::unique_ptr<Transport> make_udp_transport(const UdpConfig& config, std::string& why);

// Sets every option the receive side needs on a fresh socket and binds it to port 4791 with SO_REUSEPORT;
// used by uroced's keeper, which owns the group. Returns the descriptor or -1 with errno (EADDRINUSE: another
// uid or program has the port). `ipv6` false: AF_INET only. `receive_buffer`: bytes asked for (SO_RCVBUFFORCE
// first, then SO_RCVBUF).
int open_receive_socket(bool ipv6, int receive_buffer);

// Whether a receive socket gets the packets of every multicast group that somebody on this host has joined; a
// fresh one gets those of none. False with errno.
bool hear_all_groups(int fd, bool on);

// Attaches the classic BPF program that steers by the QPN's top bits to the group `fd` belongs to. `members`:
// sockets in the group; a slot that is out of range goes to slot 0. False with errno.
bool attach_slot_steering(int fd, uint32_t members);

}  // namespace uroce::transport
