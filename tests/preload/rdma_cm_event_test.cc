// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// GET_EVENT, and what the descriptor of /dev/infiniband/rdma_cm says about events that wait.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "tests/preload/cm_channel.h"
#include "tests/preload/device.h"
#include "tests/preload/fake_daemon.h"

namespace uroce::preload_test {
namespace {

class RdmaCmEvents : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(channel_.is_open());
    id_ = channel_.create_id().value_or(0);
    ASSERT_NE(id_, 0u);
  }
  void set_nonblocking(CmChannel& channel) { ASSERT_EQ(fcntl(channel.fd(), F_SETFL, O_NONBLOCK), 0); }
  size_t count_events(CmChannel& channel) {
    set_nonblocking(channel);
    size_t count = 0;
    while (channel.get_event()) ++count;
    return count;
  }

  FakeDaemon daemon_;
  CmChannel channel_;
  uint32_t id_ = 0;
};

// A thread in GET_EVENT, which sleeps in `call` when the constructor returns.
class Waiter {
 public:
  explicit Waiter(CmChannel& channel, long call = SYS_recvfrom) : channel_(channel) {
    pthread_create(
        &thread_, nullptr,
        [](void* given) -> void* {
          static_cast<Waiter*>(given)->wait();
          return nullptr;
        },
        this);
    while (!sleeps(call)) std::this_thread::yield();
  }
  bool sleeps(long call = SYS_recvfrom) const { return task_ != 0 && is_in_call(task_, call); }
  pthread_t thread() const { return thread_; }
  void* join() {
    void* result = nullptr;
    pthread_join(thread_, &result);
    return result;
  }
  uint64_t uid() const { return event_.uid; }  // 0: none, see error()
  int error() const { return error_; }

 private:
  // Nothing is on a stack that may be cancelled, whose red zones a sanitizer would leave behind.
  void wait() {
    task_ = gettid();
    if (write(channel_.fd(), &command_, sizeof command_) < 0) error_ = errno;
  }
  CmChannel& channel_;
  rdma_ucm_event_resp event_{};
  const CmCommand<rdma_ucm_get_event> command_{
      {RDMA_USER_CM_CMD_GET_EVENT, sizeof(rdma_ucm_get_event), sizeof event_},
      {reinterpret_cast<uintptr_t>(&event_)}};
  pthread_t thread_{};
  std::atomic<pid_t> task_{0};
  int error_ = 0;
};

TEST_F(RdmaCmEvents, readable__exactly_while_events_wait) {
  EXPECT_FALSE(is_readable(channel_.fd()));
  daemon_.rdma_cm().queue_event(id_, 1);
  daemon_.rdma_cm().queue_event(id_, 2);
  EXPECT_TRUE(is_readable(channel_.fd()));
  EXPECT_EQ(channel_.get_event()->uid, 1u);
  EXPECT_TRUE(is_readable(channel_.fd()));
  EXPECT_EQ(channel_.get_event()->uid, 2u);
  EXPECT_FALSE(is_readable(channel_.fd()));
}

TEST_F(RdmaCmEvents, readable__during_another_threads_command) {
  daemon_.hold_next_command();
  std::thread caller([&] { channel_.listen(id_); });
  while (!daemon_.holding()) std::this_thread::yield();
  EXPECT_FALSE(is_readable(channel_.fd()));
  daemon_.rdma_cm().queue_event(id_, 1);
  EXPECT_TRUE(is_readable(channel_.fd()));
  daemon_.release_command();
  caller.join();
  EXPECT_TRUE(is_readable(channel_.fd())) << "the command has taken nothing";
}

TEST_F(RdmaCmEvents, commands__go_on_while_another_thread_waits) {
  Waiter waiter(channel_);
  EXPECT_EQ(channel_.listen(id_), 0);
  daemon_.rdma_cm().queue_event(id_, 1);
  waiter.join();
  EXPECT_EQ(waiter.uid(), 1u);
}

TEST_F(RdmaCmEvents, nonblock__is_EAGAIN_also_when_it_is_set_later) {
  CmChannel quick(O_NONBLOCK);
  EXPECT_FALSE(quick.get_event());
  EXPECT_EQ(errno, EAGAIN);
  set_nonblocking(channel_);
  EXPECT_FALSE(channel_.get_event());
  EXPECT_EQ(errno, EAGAIN);
  daemon_.rdma_cm().queue_event(id_, 1);
  EXPECT_EQ(channel_.get_event()->uid, 1u);
}

TEST_F(RdmaCmEvents, epoll__level_and_edge) {
  const int level = epoll_create1(EPOLL_CLOEXEC), edge = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(level, EPOLL_CTL_ADD, channel_.fd(), &event), 0);
  event.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(epoll_ctl(edge, EPOLL_CTL_ADD, channel_.fd(), &event), 0);
  EXPECT_EQ(epoll_wait(level, &event, 1, 0), 0);
  for (uint64_t i = 1; i <= 2; ++i) {
    daemon_.rdma_cm().queue_event(id_, i);
    EXPECT_EQ(epoll_wait(edge, &event, 1, 0), 1);
    EXPECT_EQ(epoll_wait(edge, &event, 1, 0), 0);
    EXPECT_EQ(epoll_wait(level, &event, 1, 0), 1);
  }
  EXPECT_EQ(count_events(channel_), 2u);
  EXPECT_EQ(epoll_wait(level, &event, 1, 0), 0);
  close(level);
  close(edge);
}

TEST_F(RdmaCmEvents, wait__is_woken_by_an_event) {
  Waiter waiter(channel_);
  daemon_.rdma_cm().queue_event(id_, 4711);
  waiter.join();
  EXPECT_EQ(waiter.uid(), 4711u);
}

TEST_F(RdmaCmEvents, wait__two_threads_and_one_event) {
  Waiter first(channel_), second(channel_);
  daemon_.rdma_cm().queue_event(id_, 1);
  while (first.sleeps() && second.sleeps()) std::this_thread::yield();
  daemon_.rdma_cm().queue_event(id_, 2);
  first.join();
  second.join();
  EXPECT_EQ(first.uid() + second.uid(), 3u);
  EXPECT_NE(first.uid(), second.uid());
  EXPECT_FALSE(is_readable(channel_.fd()));
}

TEST_F(RdmaCmEvents, wait__ends_when_uroced_ends) {
  Waiter waiter(channel_);
  daemon_.rdma_cm().hang_up();
  waiter.join();
  EXPECT_EQ(waiter.error(), ENODEV);
  EXPECT_TRUE(is_readable(channel_.fd())) << "who polls is told";
}

volatile sig_atomic_t signals_handled;

void handle_with(int flags) {
  struct sigaction action {};
  action.sa_handler = [](int) { signals_handled = signals_handled + 1; };
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, nullptr);
  signals_handled = 0;
}

TEST_F(RdmaCmEvents, wait__a_signal_interrupts_it) {
  handle_with(0);
  Waiter waiter(channel_);
  pthread_kill(waiter.thread(), SIGUSR1);
  waiter.join();
  EXPECT_EQ(waiter.error(), EINTR);
  EXPECT_EQ(signals_handled, 1);
}

TEST_F(RdmaCmEvents, wait__goes_on_after_a_signal_with_SA_RESTART) {
  handle_with(SA_RESTART);
  Waiter waiter(channel_);
  pthread_kill(waiter.thread(), SIGUSR1);
  while (signals_handled == 0) std::this_thread::yield();
  daemon_.rdma_cm().queue_event(id_, 1);
  waiter.join();
  EXPECT_EQ(waiter.uid(), 1u);
}

TEST_F(RdmaCmEvents, wait__cancelled_leaves_nothing_held) {
  for (int i = 0; i < 3; ++i) {
    Waiter waiter(channel_);
    pthread_cancel(waiter.thread());
    EXPECT_EQ(waiter.join(), PTHREAD_CANCELED);
  }
  EXPECT_EQ(channel_.listen(id_), 0);
  daemon_.rdma_cm().queue_event(id_, 1);
  EXPECT_EQ(channel_.get_event()->uid, 1u);
  const size_t before = kept_numbers().size();
  close(channel_.fd());
  channel_.use(-1);
  const CmChannel next;
  EXPECT_EQ(kept_numbers().size(), before) << "the connection of the one that was closed has gone";
}

// A GET_EVENT waits for another thread's command when the descriptor is closed and its number used again.
class RdmaCmEventsClosed : public RdmaCmEvents {
 protected:
  void SetUp() override {
    RdmaCmEvents::SetUp();
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, stranger_), 0);
  }
  void close_under(const Waiter& waiter) {
    ASSERT_EQ(write(stranger_[1], "x", 1), 1);
    ASSERT_EQ(dup2(stranger_[0], channel_.fd()), channel_.fd());
    ASSERT_TRUE(waiter.sleeps(SYS_futex));
    daemon_.release_command();
    listener_.join();
  }
  void hold_a_command() {
    daemon_.hold_next_command();
    listener_ = std::thread([this] { channel_.listen(id_); });
    while (!daemon_.holding()) std::this_thread::yield();
  }
  void TearDown() override {
    char byte = 0;
    EXPECT_EQ(recv(stranger_[0], &byte, 1, MSG_DONTWAIT), 1) << "what the stranger was sent was taken";
    close(stranger_[0]);
    close(stranger_[1]);
  }
  std::thread listener_;
  int stranger_[2] = {-1, -1};
};

TEST_F(RdmaCmEventsClosed, wait__goes_on) {
  hold_a_command();
  Waiter waiter(channel_, SYS_futex);
  close_under(waiter);
  while (!waiter.sleeps(SYS_pause)) ASSERT_EQ(waiter.error(), 0);
  pthread_cancel(waiter.thread());
  EXPECT_EQ(waiter.join(), PTHREAD_CANCELED);
}

TEST_F(RdmaCmEventsClosed, nonblock__is_EAGAIN) {
  set_nonblocking(channel_);
  hold_a_command();
  Waiter waiter(channel_, SYS_futex);
  close_under(waiter);
  waiter.join();
  EXPECT_EQ(waiter.error(), EAGAIN);
}

TEST_F(RdmaCmEvents, wait__errno_is_as_before_when_nothing_failed) {
  int seen = 0;
  std::atomic<bool> started{false};
  std::thread thread([&] {
    errno = 4711;
    started = true;
    channel_.get_event();
    seen = errno;
  });
  while (!started) std::this_thread::yield();
  daemon_.rdma_cm().queue_event(id_, 1);
  thread.join();
  EXPECT_EQ(seen, 4711);
}

TEST_F(RdmaCmEvents, get_event__no_room_takes_nothing) {
  daemon_.rdma_cm().queue_event(id_, 1);
  rdma_ucm_event_resp event{};
  const rdma_ucm_get_event request{reinterpret_cast<uintptr_t>(&event)};
  const size_t least = offsetof(rdma_ucm_event_resp, reserved);
  EXPECT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_GET_EVENT, request, least - 1), ENOSPC);
  EXPECT_TRUE(is_readable(channel_.fd()));
  event.ece.vendor_id = 0xeeeeeeee;
  EXPECT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_GET_EVENT, request, least), 0);
  EXPECT_EQ(event.uid, 1u);
  EXPECT_EQ(event.ece.vendor_id, 0xeeeeeeeeu);
}

TEST_F(RdmaCmEvents, many__more_than_the_socket_takes) {
  for (uint64_t i = 1; i <= 1000; ++i) daemon_.rdma_cm().queue_event(id_, i);
  for (uint64_t i = 1; i <= 1000; ++i) {
    EXPECT_TRUE(is_readable(channel_.fd())) << i;
    ASSERT_EQ(channel_.get_event()->uid, i);
  }
  EXPECT_FALSE(is_readable(channel_.fd()));
}

TEST_F(RdmaCmEvents, many__destroyed_unread) {
  const auto other = channel_.create_id();
  for (uint64_t i = 1; i <= 1000; ++i) daemon_.rdma_cm().queue_event(i % 2 == 0 ? id_ : *other, i);
  EXPECT_EQ(channel_.get_event()->uid, 1u);
  EXPECT_EQ(channel_.destroy_id(*other), 1u);
  EXPECT_EQ(count_events(channel_), 500u);
  EXPECT_FALSE(is_readable(channel_.fd()));
}

TEST_F(RdmaCmEvents, destroy__takes_back_what_is_unread) {
  const auto other = channel_.create_id();
  for (uint64_t i = 1; i <= 4; ++i) daemon_.rdma_cm().queue_event(i == 2 ? *other : id_, i);
  EXPECT_EQ(channel_.get_event()->uid, 1u);
  EXPECT_EQ(channel_.destroy_id(id_), 1u) << "of this id's events one was read";
  EXPECT_TRUE(is_readable(channel_.fd()));
  EXPECT_EQ(channel_.get_event()->uid, 2u);
  EXPECT_FALSE(is_readable(channel_.fd()));
}

TEST_F(RdmaCmEvents, leave_multicast__takes_back_what_is_unread) {
  daemon_.rdma_cm().queue_event(id_, 1);
  EXPECT_EQ(channel_.leave_multicast(id_), 0u);
  EXPECT_FALSE(is_readable(channel_.fd()));
}

TEST_F(RdmaCmEvents, migrate__takes_the_unread_along) {
  CmChannel next;
  const auto other = channel_.create_id();
  for (uint64_t i = 1; i <= 4; ++i) daemon_.rdma_cm().queue_event(i == 2 ? *other : id_, i);
  EXPECT_EQ(channel_.get_event()->uid, 1u);
  EXPECT_EQ(next.migrate_from(channel_.fd(), id_), 1u);
  EXPECT_EQ(channel_.get_event()->uid, 2u);
  EXPECT_FALSE(is_readable(channel_.fd()));
  EXPECT_EQ(next.get_event()->uid, 3u);
  EXPECT_EQ(next.get_event()->uid, 4u);
  EXPECT_FALSE(is_readable(next.fd()));
}

TEST_F(RdmaCmEvents, migrate__takes_more_along_than_the_socket_takes) {
  CmChannel next;
  for (uint64_t i = 1; i <= 1000; ++i) daemon_.rdma_cm().queue_event(id_, i);
  EXPECT_EQ(next.migrate_from(channel_.fd(), id_), 0u);
  EXPECT_FALSE(is_readable(channel_.fd()));
  EXPECT_EQ(count_events(next), 1000u);
}

TEST_F(RdmaCmEvents, migrate__wakes_who_waits_at_the_new_channel) {
  CmChannel next;
  Waiter waiter(next);
  daemon_.rdma_cm().queue_event(id_, 1);
  EXPECT_EQ(next.migrate_from(channel_.fd(), id_), 0u);
  waiter.join();
  EXPECT_EQ(waiter.uid(), 1u);
}

// The worker was replaced and does not know the events any more.
TEST_F(RdmaCmEvents, bytes__without_events_are_taken_and_nothing_is_said) {
  for (uint64_t i = 1; i <= 3; ++i) daemon_.rdma_cm().queue_event(id_, i);
  daemon_.rdma_cm().forget_events();
  set_nonblocking(channel_);
  EXPECT_FALSE(channel_.get_event());
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(is_readable(channel_.fd()));
  daemon_.rdma_cm().queue_event(id_, 4);
  EXPECT_EQ(channel_.get_event()->uid, 4u);
}

TEST_F(RdmaCmEvents, threads__each_event_goes_to_one) {
  constexpr uint64_t kEvents = 3000;
  std::atomic<uint64_t> sum{0}, count{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (const auto event = channel_.get_event()) {
        if (event->uid == kEvents + 1) break;
        sum += event->uid;
        ++count;
      }
    });
  }
  for (uint64_t i = 1; i <= kEvents; ++i) daemon_.rdma_cm().queue_event(id_, i);
  for (int t = 0; t < 3; ++t) daemon_.rdma_cm().queue_event(id_, kEvents + 1);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kEvents);
  EXPECT_EQ(sum, kEvents * (kEvents + 1) / 2);
  EXPECT_FALSE(is_readable(channel_.fd()));
}

}  // namespace
}  // namespace uroce::preload_test
