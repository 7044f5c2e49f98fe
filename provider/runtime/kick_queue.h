// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Events on their way from the engine to the program's descriptors. Filled under the lane, sent without it: a
// kick is a system call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/engine/engine.h"

namespace uroce::runtime {

class KickQueue {
 public:
  explicit KickQueue(std::function<int(const uroce_kick&)> send);

  void push(const engine::Event& event);
  void push_device_fatal();

  // Sends what waits, in order per descriptor. A channel that is full keeps its kick for the next flush.
  // True: something is left.
  bool flush();
  bool empty() const { return waiting_.load(std::memory_order_acquire) == 0; }

  // An object is being destroyed: nothing about it is sent after this returns.
  void forget(uint32_t kind, uint32_t id);

 private:
  void push(const uroce_kick& kick);

  std::function<int(const uroce_kick&)> send_;
  std::mutex sending_;             // held while kicks are written, so that forget() waits for one in flight
  std::mutex queue_lock_;          // short
  std::vector<uroce_kick> queue_;  // guarded by queue_lock_
  std::vector<uroce_kick> batch_;  // guarded by sending_
  std::atomic<uint32_t> waiting_{0};
};

}  // namespace uroce::runtime
