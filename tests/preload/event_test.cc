// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Completion channels, async events, kicks, and what DESTROY says about events.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>

#include "tests/preload/device.h"
#include "tests/preload/fake_daemon.h"

namespace uroce::preload_test {
namespace {

using Handles = std::vector<uint64_t>;

class Events : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device_.is_open());
    channel_ = device_.create_channel();
    ASSERT_GE(channel_, 0);
  }

  int raise_qp(const Device::Numbered& qp, uint32_t event) {
    return device_.kick({UROCE_KICK_QP_EVENT, qp.number, event, 0, qp.user_handle});
  }

  FakeDaemon daemon_;
  Device device_;
  int channel_ = -1;
};

TEST_F(Events, channel__is_made_without_uroced) {
  EXPECT_EQ(daemon_.commands().size(), 1u) << "GET_CONTEXT";
  EXPECT_EQ(fcntl(channel_, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(channel_, F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(Events, create_cq__uroced_sees_no_channel) {
  ASSERT_TRUE(device_.create_cq(channel_, 0x1000));
  ib_uverbs_create_cq request;
  const auto seen = daemon_.commands().back();
  ASSERT_EQ(seen.size(), sizeof(ib_uverbs_cmd_hdr) + sizeof request);
  std::memcpy(&request, seen.data() + sizeof(ib_uverbs_cmd_hdr), sizeof request);
  EXPECT_EQ(request.comp_channel, -1);
  EXPECT_EQ(request.user_handle, 0x1000u);
  EXPECT_EQ(request.cqe, 16u);
}

TEST_F(Events, create_cq__a_channel_that_is_none_is_EINVAL) {
  errno = 0;
  EXPECT_FALSE(device_.create_cq(0, 0x1000));
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(daemon_.commands().size(), 1u);
}

TEST_F(Events, completion__one_record_per_kick_with_the_user_handle) {
  const auto first = device_.create_cq(channel_, 0x1000),
             second = device_.create_cq_extended(channel_, 0x2000);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(device_.complete(*first), 0);
  EXPECT_EQ(device_.complete(*second), 0);
  EXPECT_EQ(device_.complete(*first), 0);
  EXPECT_EQ(read_completions(channel_), (Handles{0x1000, 0x2000, 0x1000}));
  EXPECT_EQ(daemon_.commands().size(), 3u) << "no kick goes to uroced";
}

TEST_F(Events, completion__does_not_wait_for_a_command_that_is_under_way) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  daemon_.hold_next_command();
  std::thread caller([&] { device_.any_command(); });
  while (!daemon_.holding()) std::this_thread::yield();
  EXPECT_EQ(device_.complete(*cq), 0);
  EXPECT_EQ(read_completions(channel_), (Handles{0x1000}));
  daemon_.release_command();
  caller.join();
}

TEST_F(Events, completion__of_a_cq_without_channel_is_nothing) {
  const auto cq = device_.create_cq(-1, 0x1000);
  EXPECT_EQ(device_.complete(*cq), 0);
  EXPECT_EQ(device_.destroy_cq(*cq)->comp_events_reported, 0u);
}

TEST_F(Events, completion__full_is_EAGAIN_and_nothing_is_lost) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  size_t sent = 0;
  int error = 0;
  while ((error = device_.complete(*cq)) == 0) ++sent;
  EXPECT_EQ(error, EAGAIN);
  EXPECT_GT(sent, 100u);
  EXPECT_EQ(read_completions(channel_).size(), sent);
  EXPECT_EQ(device_.complete(*cq), 0);
}

TEST_F(Events, completion__a_blocked_reader_wakes) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  ib_uverbs_comp_event_desc record{};
  std::thread reader(
      [&] { EXPECT_EQ(read(channel_, &record, sizeof record), static_cast<ssize_t>(sizeof record)); });
  EXPECT_EQ(device_.complete(*cq), 0);
  reader.join();
  EXPECT_EQ(record.cq_handle, 0x1000u);
}

TEST_F(Events, completion__epoll_and_nonblock) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  ASSERT_EQ(fcntl(channel_, F_SETFL, O_NONBLOCK), 0);
  ib_uverbs_comp_event_desc record{};
  EXPECT_EQ(read(channel_, &record, sizeof record), -1);
  EXPECT_EQ(errno, EAGAIN);
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(poller, EPOLL_CTL_ADD, channel_, &event), 0);
  EXPECT_EQ(epoll_wait(poller, &event, 1, 0), 0);
  EXPECT_EQ(device_.complete(*cq), 0);
  EXPECT_EQ(epoll_wait(poller, &event, 1, 0), 1);
  close(poller);
}

TEST_F(Events, kick__of_nothing_known_is_EINVAL) {
  EXPECT_EQ(device_.kick({UROCE_KICK_COMPLETION, 4711, 0, 0, 1}), EINVAL);
  EXPECT_EQ(device_.kick({UROCE_KICK_QP_EVENT, 4711, 1, 0, 1}), EINVAL);
  EXPECT_EQ(device_.kick({99, 0, 0, 0, 0}), EINVAL);
}

TEST_F(Events, async__of_each_kind) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  const auto qp = device_.create_qp(0x2000);
  const auto srq = device_.create_srq(0x3000);
  ASSERT_TRUE(cq && qp && srq);
  EXPECT_EQ(device_.kick({UROCE_KICK_CQ_EVENT, cq->id, IBV_EVENT_CQ_ERR, 0, cq->user_handle}), 0);
  EXPECT_EQ(raise_qp(*qp, IBV_EVENT_QP_FATAL), 0);
  EXPECT_EQ(
      device_.kick({UROCE_KICK_SRQ_EVENT, srq->number, IBV_EVENT_SRQ_LIMIT_REACHED, 0, srq->user_handle}), 0);
  EXPECT_EQ(device_.kick({UROCE_KICK_DEVICE_FATAL, 0, 0, 0, 0}), 0);
  const auto events = read_asyncs(device_.async());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].element, 0x1000u);
  EXPECT_EQ(events[1].element, 0x2000u);
  EXPECT_EQ(events[1].event_type, static_cast<uint32_t>(IBV_EVENT_QP_FATAL));
  EXPECT_EQ(events[2].element, 0x3000u);
  EXPECT_EQ(events[3].event_type, static_cast<uint32_t>(IBV_EVENT_DEVICE_FATAL));
}

TEST_F(Events, destroy_cq__counts_what_was_read_and_takes_back_the_rest) {
  const auto mine = device_.create_cq(channel_, 0x1000), other = device_.create_cq(channel_, 0x2000);
  for (int i = 0; i < 3; ++i) device_.complete(*mine);
  ib_uverbs_comp_event_desc record{};
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(read(channel_, &record, sizeof record), static_cast<ssize_t>(sizeof record));
  device_.complete(*other);
  device_.complete(*mine);
  device_.complete(*other);
  const auto told = device_.destroy_cq(*mine);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->comp_events_reported, 2u);
  EXPECT_EQ(told->async_events_reported, 0u);
  EXPECT_EQ(read_completions(channel_), (Handles{0x2000, 0x2000}));
  EXPECT_EQ(device_.complete(*mine), EINVAL);
  EXPECT_EQ(device_.destroy_cq(*other)->comp_events_reported, 2u);
}

TEST_F(Events, destroy_cq__with_a_full_channel) {
  const auto mine = device_.create_cq(channel_, 0x1000), other = device_.create_cq(channel_, 0x2000);
  size_t others = 0;
  for (bool turn = true; device_.complete(turn ? *mine : *other) == 0; turn = !turn) others += turn ? 0 : 1;
  EXPECT_EQ(device_.destroy_cq(*mine)->comp_events_reported, 0u);
  EXPECT_EQ(read_completions(channel_), Handles(others, 0x2000));
}

TEST_F(Events, destroy_cq__when_the_channel_has_another_number_now) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  device_.complete(*cq);
  const int moved = fcntl(channel_, F_DUPFD, 100);
  close(channel_);
  EXPECT_EQ(device_.destroy_cq(*cq)->comp_events_reported, 0u);
  EXPECT_TRUE(read_completions(moved).empty());
  close(moved);
}

TEST_F(Events, destroy_qp__uroceds_own_events_and_those_of_others_survive) {
  const auto mine = device_.create_qp(0x1000), other = device_.create_qp(0x2000);
  EXPECT_EQ(raise_qp(*mine, IBV_EVENT_COMM_EST), 0);
  ASSERT_EQ(read_asyncs(device_.async()).size(), 1u);
  EXPECT_TRUE(daemon_.send_async(1, IBV_EVENT_PORT_ERR));
  EXPECT_EQ(raise_qp(*mine, IBV_EVENT_QP_FATAL), 0);
  EXPECT_EQ(raise_qp(*other, IBV_EVENT_QP_FATAL), 0);
  EXPECT_TRUE(daemon_.send_async(0x1000, IBV_EVENT_PORT_ACTIVE)) << "a number that happens to be the QP's";
  EXPECT_EQ(device_.destroy_qp(*mine), 1u);
  const auto left = read_asyncs(device_.async());
  ASSERT_EQ(left.size(), 3u);
  EXPECT_EQ(left[0].event_type, static_cast<uint32_t>(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(left[1].element, 0x2000u);
  EXPECT_EQ(left[2].event_type, static_cast<uint32_t>(IBV_EVENT_PORT_ACTIVE));
  EXPECT_EQ(device_.destroy_qp(*other), 1u);
}

TEST_F(Events, destroy_srq) {
  const auto srq = device_.create_srq(0x3000);
  EXPECT_EQ(device_.kick({UROCE_KICK_SRQ_EVENT, srq->number, IBV_EVENT_SRQ_LIMIT_REACHED, 0, 0x3000}), 0);
  EXPECT_EQ(device_.destroy_srq(*srq), 0u);
  EXPECT_TRUE(read_asyncs(device_.async()).empty());
}

TEST_F(Events, destroy__that_uroced_refuses_changes_nothing) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  device_.complete(*cq);
  daemon_.fail_next_command(EBUSY);
  EXPECT_FALSE(device_.destroy_cq(*cq));
  EXPECT_EQ(read_completions(channel_), (Handles{0x1000}));
  EXPECT_EQ(device_.destroy_cq(*cq)->comp_events_reported, 1u);
}

TEST_F(Events, many_cqs__on_one_channel) {
  std::vector<Device::Cq> cqs;
  for (uint64_t i = 0; i < 1000; ++i) cqs.push_back(*device_.create_cq(channel_, i + 1));
  size_t delivered = 0;
  for (const Device::Cq& cq : cqs) {
    while (device_.complete(cq) == EAGAIN) delivered += read_completions(channel_).size();
  }
  delivered += read_completions(channel_).size();
  EXPECT_EQ(delivered, cqs.size());
  for (const Device::Cq& cq : cqs) EXPECT_EQ(device_.destroy_cq(cq)->comp_events_reported, 1u);
}

TEST_F(Events, channels__that_are_closed_cost_nothing) {
  const size_t before = kept_numbers().size();
  for (int i = 0; i < 500; ++i) {
    const int channel = device_.create_channel();
    ASSERT_GE(channel, 0);
    close(channel);
  }
  EXPECT_EQ(kept_numbers().size(), before + 1) << "the last one is found at the next creation";
}

TEST_F(Events, kept_descriptors__are_out_of_the_way_and_closed_with_the_device) {
  const size_t before = kept_numbers().size();
  {
    Device another;
    ASSERT_TRUE(another.is_open());
    const int channel = another.create_channel();
    EXPECT_EQ(kept_numbers().size(), before + 2) << "the far ends of the async queue and the channel";
    close(channel);
  }
  const Device next;
  EXPECT_EQ(kept_numbers().size(), before + 1) << "those of the device that was closed have gone";
}

TEST_F(Events, kept_descriptors__that_the_program_has_closed_are_nobodys) {
  const auto cq = device_.create_cq(channel_, 0x1000);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
  for (const int fd : kept_numbers()) dup2(ends[0], fd);
  EXPECT_EQ(device_.complete(*cq), EIO);
  EXPECT_EQ(device_.kick({UROCE_KICK_DEVICE_FATAL, 0, 0, 0, 0}), EIO);
  char stray[16];
  EXPECT_EQ(read(ends[1], stray, sizeof stray), -1) << "a stranger's socket got the event";
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace uroce::preload_test
