// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One engine, its transport, and the right to drive them. Whoever enters the lane makes the progress for
// everybody: work posted meanwhile by others is found before the lane is left.
//
// Held for microseconds, never over a system call that blocks; cancellation of the holding thread is disabled
// meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "provider/engine/engine.h"
#include "provider/runtime/kick_queue.h"
#include "provider/runtime/memory.h"
#include "provider/runtime/pages.h"
#include "provider/transport/transport.h"

namespace uroce::runtime {

class Lane final : private transport::PacketSink {
 public:
  Lane(const engine::EngineConfig& config, std::unique_ptr<ProgramMemory> memory,
       std::unique_ptr<transport::Transport> transport, DevicePageReader page, KickQueue& kicks);
  ~Lane();

  bool try_enter();
  void enter();  // spins with a yield; for control and for the background thread's last word only
  // Drains nothing by itself: call drain() first. Work posted while we held the lane is taken before it is
  // let go.
  void leave();

  // ---- with the lane held
  // ------------------------------------------------------------------------------------------
  engine::Engine& engine() { return engine_; }
  transport::Transport* transport() { return transport_.get(); }
  engine::Time now() const { return now_; }
  void read_clock();
  // Receives (bounded), runs timers, sends. Returns packets received. A poller wants what is there `at_once`;
  // with nobody waiting it is cheaper to look `until_empty` and acknowledge all of it together.
  enum class Look : uint8_t { at_once, until_empty };
  size_t pass(Look look);
  // Takes posted work, sends what is due, collects events. After every input.
  void drain();
  void take_packet(std::span<const std::byte> packet, const engine::RxMeta& meta);  // relayed by the broker
  // Where the states of queue pairs are shown to others; outlives the lane.
  void show_states_in(uroce_slot_page* page) { states_ = page; }
  // Sends every acknowledgement that waits for company.
  void settle_debts();
  // The end: flushes every queue and closes the sockets.
  void fail();

  // ---- any thread
  // --------------------------------------------------------------------------------------------------
  // Earliest time somebody must enter the lane, as of the last leave(); INT64_MAX: none.
  int64_t deadline_ns() const { return deadline_ns_.load(std::memory_order_acquire); }
  // When somebody last looked for packets.
  int64_t looked_ns() const { return looked_ns_.load(std::memory_order_relaxed); }
  uint64_t foreign_destination() const { return foreign_destination_; }

 private:
  void on_packet(std::span<const std::byte> packet, const engine::RxMeta& meta) override;
  bool transmit();
  void hold_acknowledgements(bool received);
  bool destination_is_ours(const engine::RxMeta& meta);
  void publish_deadline();
  void follow_device_page();  // the netdev's MTU

  std::atomic<bool> held_{false};
  int saved_cancel_state_ = 0;
  engine::Time now_{};
  std::atomic<int64_t> deadline_ns_{INT64_MAX};
  std::atomic<int64_t> looked_ns_{0};

  std::unique_ptr<ProgramMemory> memory_;
  std::unique_ptr<transport::Transport> transport_;
  DevicePageReader page_;
  KickQueue& kicks_;
  uroce_slot_page* states_ = nullptr;
  engine::Engine engine_;

  std::vector<std::byte> storage_;
  engine::TxBatch batch_;
  size_t unsent_ = 0;  // index of the first entry of the batch that has not left
  uint32_t passes_ = 0;
  bool holding_ = false;
  engine::Time held_until_;
  wire::Gid last_destination_;  // found in the GID table at page sequence last_sequence_
  uint32_t last_sequence_ = 1;
  uint32_t page_sequence_ = 1;  // of the device page that the engine knows
  uint64_t foreign_destination_ = 0;
};

}  // namespace uroce::runtime
