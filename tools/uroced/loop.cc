// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/loop.h"

#include <event2/event.h>
#include <signal.h>

#include <new>

namespace uroce::daemon {

namespace {

timeval to_timeval(std::chrono::milliseconds delay) {
  return {static_cast<time_t>(delay.count() / 1000), static_cast<suseconds_t>(delay.count() % 1000 * 1000)};
}

}  // namespace

Loop::Loop() : base_(event_base_new()) {
  if (base_ == nullptr) throw std::bad_alloc();
}

Loop::~Loop() {
  event_base_free(base_);
}

void Loop::run() {
  event_base_dispatch(base_);
}

void Loop::stop() {
  event_base_loopbreak(base_);
}

void Loop::later(std::function<void()> work) {
  auto* owned = new std::function<void()>(std::move(work));
  const timeval now{0, 0};
  const auto call = [](int, short, void* argument) {
    const std::unique_ptr<std::function<void()>> function(static_cast<std::function<void()>*>(argument));
    (*function)();
  };
  if (event_base_once(base_, -1, EV_TIMEOUT, call, owned, &now) != 0) {
    delete owned;
    throw std::bad_alloc();
  }
}

FdWatch::FdWatch(Loop& loop, int fd, std::function<void()> readable, std::function<void()> writable)
    : readable_(std::move(readable)), writable_(std::move(writable)) {
  if (readable_) {
    read_event_ = event_new(loop.base(), fd, EV_READ | EV_PERSIST, on_read, this);
    if (read_event_ == nullptr) throw std::bad_alloc();
    event_add(read_event_, nullptr);
  }
  if (writable_) {
    write_event_ = event_new(loop.base(), fd, EV_WRITE | EV_PERSIST, on_write, this);
    if (write_event_ == nullptr) {
      if (read_event_ != nullptr) event_free(read_event_);
      throw std::bad_alloc();
    }
  }
}

FdWatch::~FdWatch() {
  if (read_event_ != nullptr) event_free(read_event_);
  if (write_event_ != nullptr) event_free(write_event_);
}

void FdWatch::want_writable(bool wanted) {
  if (write_event_ == nullptr) return;
  if (wanted) {
    event_add(write_event_, nullptr);
  } else {
    event_del(write_event_);
  }
}

void FdWatch::silence() {
  if (read_event_ != nullptr) event_del(read_event_);
  if (write_event_ != nullptr) event_del(write_event_);
}

void FdWatch::on_read(int, short, void* self) {
  static_cast<FdWatch*>(self)->readable_();
}

void FdWatch::on_write(int, short, void* self) {
  static_cast<FdWatch*>(self)->writable_();
}

SignalWatch::SignalWatch(Loop& loop, std::initializer_list<int> signals, std::function<void()> raised)
    : raised_(std::move(raised)) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) {
    event* watch = evsignal_new(loop.base(), number, on_signal, this);
    if (watch == nullptr) throw std::bad_alloc();
    events_.push_back(watch);
    event_add(watch, nullptr);
    sigaddset(&set, number);
  }
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

SignalWatch::~SignalWatch() {
  for (event* watch : events_) event_free(watch);
}

void SignalWatch::on_signal(int, short, void* self) {
  static_cast<SignalWatch*>(self)->raised_();
}

Timer::Timer(Loop& loop, std::function<void()> expired)
    : expired_(std::move(expired)), event_(event_new(loop.base(), -1, 0, on_timeout, this)) {
  if (event_ == nullptr) throw std::bad_alloc();
}

Timer::~Timer() {
  event_free(event_);
}

void Timer::start(std::chrono::milliseconds delay) {
  period_ = std::chrono::milliseconds(0);
  const timeval when = to_timeval(delay);
  event_add(event_, &when);
}

void Timer::start_every(std::chrono::milliseconds period) {
  period_ = period;
  const timeval when = to_timeval(period);
  event_add(event_, &when);
}

void Timer::cancel() {
  period_ = std::chrono::milliseconds(0);
  event_del(event_);
}

bool Timer::pending() const {
  return event_pending(event_, EV_TIMEOUT, nullptr) != 0;
}

void Timer::on_timeout(int, short, void* self) {
  auto* timer = static_cast<Timer*>(self);
  if (timer->period_.count() != 0) timer->start_every(timer->period_);
  timer->expired_();
}

}  // namespace uroce::daemon
