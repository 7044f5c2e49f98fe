// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The background thread of a context. While the program polls it leaves the socket alone and looks again
// after 100 us, then every millisecond; when no poll came it watches the socket and sleeps. So one-sided
// operations go on while the program computes, a polling program is not disturbed, and an idle one costs
// nothing. Longest gap after the last poll: 1 ms.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "provider/runtime/broker.h"
#include "provider/runtime/kick_queue.h"
#include "provider/runtime/lane.h"

namespace uroce::runtime {

class ProgressThread {
 public:
  // `on_gone`: called once, by the thread, without the lane, when the daemon or the device has left.
  // `housekeeping`: called with the lane held, at most every few milliseconds and before each sleep.
  ProgressThread(Lane& lane, KickQueue& kicks, Broker& broker, std::function<void()> on_gone,
                 std::function<void()> housekeeping);
  ~ProgressThread();

  bool start();  // false with errno
  void stop();   // joins

  // Any thread.
  void polled() { polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void armed();  // a CQ wants an event: watch the socket
  void event_sent() { want_armed_.store(false, std::memory_order_relaxed); }
  void kicks_are_left();                     // some found their channel full: try again now and then
  void deadline_moved(int64_t deadline_ns);  // wakes the thread when it sleeps past it

 private:
  enum class Mode : uint8_t { watching, resting, resting_long };
  void run();
  static Mode next_mode(Mode mode, bool polled, bool lane_was_busy, bool received);
  int64_t wait_ns(Mode mode, bool kicks_left) const;
  bool wait(Mode mode, int64_t timeout_ns);  // true: the socket is readable
  void read_broker();
  void flush_kicks(bool& left);
  void wake();

  Lane& lane_;
  KickQueue& kicks_;
  Broker& broker_;
  std::function<void()> on_gone_;
  std::function<void()> housekeeping_;
  std::thread thread_;
  int wake_fd_ = -1;
  bool gone_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> polls_{0};
  std::atomic<bool> want_armed_{false};
  std::atomic<bool> resting_{false};
  std::atomic<bool> retrying_{false};
  std::atomic<int64_t> sleeps_until_ns_{0};  // INT64_MAX: until something happens
};

}  // namespace uroce::runtime
