// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "provider/runtime/clock.h"

namespace uroce::runtime {
namespace {

constexpr int64_t kShortRestNs = 100'000;
constexpr int64_t kLongRestNs = 1'000'000;
constexpr int64_t kAttentiveNs = 10'000;
// Kicks that found their channel full are tried again after this.
constexpr int64_t kKickRetryNs = 1'000'000;
// A poster need not wake us for a deadline that is this close to the one we sleep for.
constexpr int64_t kDeadlineSlackNs = 50'000;

}  // namespace

ProgressThread::ProgressThread(Lane& lane, KickQueue& kicks, Broker& broker, std::function<void()> on_gone,
                               std::function<void()> housekeeping)
    : lane_(lane),
      kicks_(kicks),
      broker_(broker),
      on_gone_(std::move(on_gone)),
      housekeeping_(std::move(housekeeping)) {}

ProgressThread::~ProgressThread() {
  stop();
  if (wake_fd_ >= 0) close(wake_fd_);
}

bool ProgressThread::start() {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return false;
  // Signals are the program's: its threads take them, never ours. Faults are blocked too here and unblocked
  // by the lane.
  sigset_t all, saved;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &saved);
  bool started = true;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    errno = error.code().value();
    started = false;
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
  errno = error;
  return started;
}

void ProgressThread::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void ProgressThread::wake() {
  const uint64_t one = 1;
  syscall(SYS_write, wake_fd_, &one, sizeof one);
}

void ProgressThread::armed() {
  want_armed_.store(true, std::memory_order_seq_cst);
  if (resting_.load(std::memory_order_seq_cst)) wake();
}

void ProgressThread::flush_kicks(bool& left) {
  retrying_.store(false, std::memory_order_seq_cst);
  left = kicks_.flush();
  if (left) retrying_.store(true, std::memory_order_relaxed);
}

void ProgressThread::kicks_are_left() {
  if (!retrying_.exchange(true, std::memory_order_seq_cst)) wake();
}

void ProgressThread::deadline_moved(int64_t deadline_ns) {
  // Somebody polls and looks after the deadlines; should that stop, we are back within a millisecond.
  if (resting_.load(std::memory_order_relaxed)) return;
  int64_t until = sleeps_until_ns_.load(std::memory_order_acquire);
  if (deadline_ns >= until || until - deadline_ns < kDeadlineSlackNs) return;
  if (sleeps_until_ns_.compare_exchange_strong(until, deadline_ns)) wake();
}

void ProgressThread::run() {
  pthread_setname_np(pthread_self(), "uroce-lane");
  uint64_t seen_polls = polls_.load(std::memory_order_relaxed);
  Mode mode = Mode::watching;
  bool kicks_left = false;
  while (!stop_.load(std::memory_order_acquire)) {
    resting_.store(mode != Mode::watching, std::memory_order_seq_cst);
    if (mode != Mode::watching && want_armed_.load(std::memory_order_seq_cst)) {
      mode = Mode::watching;
      resting_.store(false, std::memory_order_seq_cst);
    }
    const bool readable = wait(mode, wait_ns(mode, kicks_left));
    read_broker();

    const uint64_t polls = polls_.load(std::memory_order_relaxed);
    const bool polled = polls != seen_polls && !want_armed_.load(std::memory_order_relaxed);
    seen_polls = polls;
    // A poller that was here just now needs no help; taking its packets would only cost it their warmth.
    if (polled && runtime::now().ns - lane_.looked_ns() < kAttentiveNs) {
      mode = mode == Mode::watching ? Mode::resting : Mode::resting_long;
      flush_kicks(kicks_left);
      continue;
    }
    const bool look = mode != Mode::watching || readable || runtime::now().ns >= lane_.deadline_ns();
    size_t received = 0;
    bool entered = false;
    if (look && lane_.try_enter()) {
      entered = true;
      received = lane_.pass(Lane::Look::until_empty);
      housekeeping_();
      lane_.leave();
    }
    mode = next_mode(mode, polled, look && !entered, received > 0);
    flush_kicks(kicks_left);
  }
}

// A poller that left something lying is one that looks elsewhere between its polls, at memory for instance:
// stay close to it.
ProgressThread::Mode ProgressThread::next_mode(Mode mode, bool polled, bool lane_was_busy, bool received) {
  if (lane_was_busy) return Mode::resting;
  if (!polled) return Mode::watching;
  return mode == Mode::watching || received ? Mode::resting : Mode::resting_long;
}

int64_t ProgressThread::wait_ns(Mode mode, bool kicks_left) const {
  int64_t timeout = INT64_MAX;
  if (mode == Mode::resting) timeout = kShortRestNs;
  if (mode == Mode::resting_long) timeout = kLongRestNs;
  const int64_t deadline = lane_.deadline_ns();
  if (mode == Mode::watching && deadline != INT64_MAX)
    timeout = std::max<int64_t>(deadline - runtime::now().ns, 0);
  return kicks_left ? std::min(timeout, kKickRetryNs) : timeout;
}

bool ProgressThread::wait(Mode mode, int64_t timeout_ns) {
  // Announce first, look again after: a poster that moves the deadline in between sees the announcement or we
  // see its deadline.
  sleeps_until_ns_.store(timeout_ns == INT64_MAX ? INT64_MAX : runtime::now().ns + timeout_ns,
                         std::memory_order_seq_cst);
  if (mode == Mode::watching)
    timeout_ns = std::min(timeout_ns, std::max<int64_t>(lane_.deadline_ns() - runtime::now().ns, 0));

  const transport::Transport* transport = lane_.transport();
  pollfd fds[3] = {{wake_fd_, POLLIN, 0}, {gone_ ? -1 : broker_.descriptor(), POLLIN, 0}, {-1, POLLIN, 0}};
  if (mode == Mode::watching && transport != nullptr) fds[2].fd = transport->wait_descriptor();
  timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  const int ready = ppoll(fds, 3, timeout_ns == INT64_MAX ? nullptr : &timeout, nullptr);
  sleeps_until_ns_.store(0, std::memory_order_release);
  if (ready <= 0) return false;
  if (fds[0].revents != 0) {
    uint64_t count;
    syscall(SYS_read, wake_fd_, &count, sizeof count);
  }
  return (fds[2].revents & (POLLIN | POLLERR)) != 0;
}

void ProgressThread::read_broker() {
  if (gone_) return;
  for (int i = 0; i < 16; ++i) {
    const auto input =
        broker_.read_one([this](std::span<const std::byte> packet, const engine::RxMeta& meta) {
          lane_.enter();
          lane_.read_clock();
          lane_.take_packet(packet, meta);
          lane_.drain();
          lane_.leave();
        });
    if (input == Broker::Input::nothing) return;
    if (input == Broker::Input::gone) {
      gone_ = true;
      on_gone_();
      return;
    }
  }
}

}  // namespace uroce::runtime
