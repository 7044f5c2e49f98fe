// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The worker's event loop (libevent): readable and writable descriptors, timers. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

struct event;
struct event_base;

namespace uroce::daemon {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;

  void run();
  void stop();
  // Runs `work` soon, outside of the callback that asks for it: the place to delete what is calling.
  void later(std::function<void()> work);

  event_base* base() const { return base_; }

 private:
  event_base* base_;
};

// Calls back while the descriptor is readable, and, when asked for, while it is writable. Does not own the
// descriptor; must go before it is closed, and not from inside its own callback.
class FdWatch {
 public:
  FdWatch(Loop& loop, int fd, std::function<void()> readable, std::function<void()> writable = {});
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;

  void want_writable(bool wanted);
  void silence();  // no callback any more

 private:
  static void on_read(int, short, void* self);
  static void on_write(int, short, void* self);

  std::function<void()> readable_, writable_;
  event* read_event_ = nullptr;
  event* write_event_ = nullptr;
};

// Takes over the signals and lets them through if they were blocked.
class SignalWatch {
 public:
  SignalWatch(Loop& loop, std::initializer_list<int> signals, std::function<void()> raised);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;

 private:
  static void on_signal(int, short, void* self);

  std::function<void()> raised_;
  std::vector<event*> events_;
};

class Timer {
 public:
  Timer(Loop& loop, std::function<void()> expired);
  ~Timer();
  Timer(const Timer&) = delete;

  void start(std::chrono::milliseconds delay);  // once; replaces an earlier start
  void start_every(std::chrono::milliseconds period);
  void cancel();
  bool pending() const;

 private:
  static void on_timeout(int, short, void* self);

  std::function<void()> expired_;
  event* event_;
  std::chrono::milliseconds period_{0};
};

}  // namespace uroce::daemon
