// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The way in over udp: one datagram or one coalesced run per call, each packet's ICRC checked before anybody
// sees it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "provider/transport/transport.h"
#include "provider/wire/icrc.h"

namespace uroce::transport {

class UdpReceiver {
 public:
  using OtherSlot = std::function<bool(std::span<const std::byte>, const engine::RxMeta&, uint32_t slot)>;

  // Owns `fd`.
  UdpReceiver(int fd, uint32_t slot, OtherSlot other_slot, Counters& counters, bool coalescing);
  ~UdpReceiver();
  UdpReceiver(const UdpReceiver&) = delete;

  // As Transport::receive.
  size_t receive(PacketSink& sink);
  int descriptor() const { return fd_; }
  bool coalescing() const { return coalescing_; }

 private:
  static constexpr size_t kBufferBytes = 65536;
  static constexpr size_t kFlows = 64;

  struct Arrival {
    engine::RxMeta meta;
    uint16_t destination_port = 0;
    size_t segment = 0;  // of a coalesced run; 0: one datagram
  };
  struct Flow {
    engine::RxMeta key;  // addresses and source port
    wire::IcrcFlow icrc;
  };
  bool read_control(const msghdr& message, Arrival& out) const;
  const wire::IcrcFlow& flow_of(const engine::RxMeta& meta);
  bool take(std::span<const std::byte> datagram, uint16_t guess, uint16_t& identification,
            const engine::RxMeta& meta, PacketSink& sink);
  void drop(Drop reason) { ++counters_.drops[static_cast<size_t>(reason)]; }

  int fd_;
  uint32_t slot_;
  OtherSlot other_slot_;
  Counters& counters_;
  bool coalescing_;
  bool ipv6_;
  std::unique_ptr<std::byte[]> buffer_;
  std::array<Flow, kFlows> flows_;
};

}  // namespace uroce::transport
