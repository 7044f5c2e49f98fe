// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// QP 1 of every device: MADs in and out by the socket of slot 0. One per daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "provider/transport/transport.h"
#include "tools/uroced/cm/ib_cm.h"
#include "tools/uroced/loop.h"
#include "tools/uroced/slot_group.h"

namespace uroce::daemon {

class Gsi final : public transport::PacketSink {
 public:
  struct Counters {
    uint64_t not_for_gsi = 0;      // another opcode, QP, queue key or length
    uint64_t foreign_address = 0;  // to an address that no device has
  };
  // Finds the device of an arrived packet, by the address it was sent to: its position, and the netdev of the
  // GID. False: none.
  using DeviceOf = std::function<bool(const wire::Gid& destination, uint32_t ifindex, cm::Route& out)>;
  using OnMad = std::function<void(const cm::Route& from, std::span<const std::byte> mad)>;

  Gsi(Loop& loop, SlotGroup& slots, DeviceOf device_of, OnMad on_mad);

  // When the port is there. True also when it was open before.
  bool open(std::string& why);
  void send(const cm::Outgoing& out);
  const Counters& counters() const { return counters_; }

  void on_packet(std::span<const std::byte> packet, const engine::RxMeta& meta) override;

 private:
  void receive_some();

  Loop& loop_;
  SlotGroup& slots_;
  DeviceOf device_of_;
  OnMad on_mad_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<FdWatch> watch_;
  std::vector<std::byte> storage_;
  engine::TxBatch batch_;
  wire::Psn psn_;
  Counters counters_;
};

}  // namespace uroce::daemon
