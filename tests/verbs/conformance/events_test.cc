// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_get_cq_event(3), ibv_get_async_event(3), ibv_req_notify_cq(3): every event once, and destroying waits
// for its acknowledgement.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

bool readable(int fd, int timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, timeout_ms) == 1;
}
constexpr int kLong = 20000, kNow = 0;

class Events : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    if (HasFatalFailure()) return;
    channel.reset(ibv_create_comp_channel(context));
    ASSERT_NE(channel, nullptr);
    watched.reset(ibv_create_cq(context, 32, this, channel.get(), 0));
    ASSERT_NE(watched, nullptr);
    ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, watched.get());
    init.send_cq = queue.get();
    receiver.reset(ibv_create_qp(pd.get(), &init));
    sender = qp(IBV_QPT_RC, queue.get());
    connect(sender.get(), receiver.get());
  }
  void TearDown() override {
    sender.reset(), receiver.reset(), watched.reset(), channel.reset();
    Pair::TearDown();
  }
  void send_one(unsigned flags = 0) {
    ASSERT_EQ(post_recv(receiver.get(), sge(1000, 64)), 0);
    ibv_sge list = sge(0, 8);
    ibv_send_wr wr = send_wr(IBV_WR_SEND, &list);
    wr.send_flags |= flags;
    ASSERT_EQ(post(sender.get(), wr), 0);
    await(queue.get(), 1);
  }
  void take_event() {
    ibv_cq* cq = nullptr;
    void* its = nullptr;
    ASSERT_TRUE(readable(channel->fd, kLong));
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &cq, &its), 0);
    EXPECT_EQ(cq, watched.get());
    EXPECT_EQ(its, this);
  }
  ibv_async_event take_async() {
    ibv_async_event event{};
    EXPECT_TRUE(readable(context->async_fd, kLong)) << "no event came";
    if (!readable(context->async_fd, kNow)) return event;
    EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    return event;
  }
  // Events of a kind that other events may stand before.
  ibv_async_event await_async(ibv_event_type type) {
    for (int i = 0; i < 10; ++i) {
      const ibv_async_event event = take_async();
      if (event.event_type == type || HasFailure()) return event;
      ibv_async_event other = event;
      ibv_ack_async_event(&other);
    }
    ADD_FAILURE() << "not among ten events: " << ibv_event_type_str(type);
    return {};
  }

  Channel channel;
  Cq watched;
  Qp sender, receiver;
};

TEST_F(Events, one_arming_gives_one_event) {
  ASSERT_EQ(ibv_req_notify_cq(watched.get(), 0), 0);
  for (int i = 0; i < 3; ++i) send_one();
  take_event();
  ibv_ack_cq_events(watched.get(), 1);
  await(watched.get(), 3);
  EXPECT_FALSE(readable(channel->fd, kNow));
  ASSERT_EQ(ibv_req_notify_cq(watched.get(), 0), 0);
  EXPECT_FALSE(readable(channel->fd, kNow));
  send_one();
  take_event();
  ibv_ack_cq_events(watched.get(), 1);
}

TEST_F(Events, solicited_only_waits_for_a_solicited_message) {
  ASSERT_EQ(ibv_req_notify_cq(watched.get(), 1), 0);
  send_one();
  await(watched.get(), 1);
  EXPECT_FALSE(readable(channel->fd, kNow));
  send_one(IBV_SEND_SOLICITED);
  take_event();
  ibv_ack_cq_events(watched.get(), 1);
}

TEST_F(Events, a_failed_completion_wakes_solicited_waiters) {
  ASSERT_EQ(post_recv(receiver.get(), sge(1000, 64)), 0);
  ASSERT_EQ(ibv_req_notify_cq(watched.get(), 1), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(receiver.get(), &error, IBV_QP_STATE), 0);
  take_event();
  ibv_ack_cq_events(watched.get(), 1);
}

TEST_F(Events, a_channel_may_be_nonblocking) {
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* its = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel.get(), &cq, &its), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Events, destroying_a_queue_waits_until_its_events_are_acknowledged) {
  ASSERT_EQ(ibv_req_notify_cq(watched.get(), 0), 0);
  send_one();
  take_event();
  receiver.reset();
  ibv_cq* const going = watched.release();
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(going), 0);
    destroyed = true;
  });
  // Nothing to wait for tells that it will not end; a moment is given in which it must not.
  EXPECT_FALSE(readable(channel->fd, 50));
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(going, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

TEST_F(Events, the_first_message_before_rts_raises_comm_est) {
  Qp waiting = qp(IBV_QPT_RC, queue.get()), first = qp(IBV_QPT_RC, queue.get());
  bring_up(waiting.get(), first->qp_num, IBV_QPS_RTR);
  bring_up(first.get(), waiting->qp_num);
  ASSERT_EQ(post_recv(waiting.get(), sge(1000, 64)), 0);
  ibv_sge list = sge(0, 8);
  ASSERT_EQ(post(first.get(), send_wr(IBV_WR_SEND, &list)), 0);
  await(queue.get(), 2);
  ibv_async_event event = await_async(IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.element.qp, waiting.get());
  ibv_ack_async_event(&event);
}

TEST_F(Events, draining_the_send_queue_raises_its_event_when_asked_for) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_SQD;
  a.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(sender.get(), &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ibv_async_event event = await_async(IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event.element.qp, sender.get());
  ibv_ack_async_event(&event);
}

TEST_F(Events, a_shared_receive_queue_below_its_limit_raises_it_once) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  Srq srq(ibv_create_srq(pd.get(), &init));
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr with_srq = init_attributes(IBV_QPT_RC, queue.get());
  with_srq.srq = srq.get();
  Qp taker(ibv_create_qp(pd.get(), &with_srq)), giver = qp(IBV_QPT_RC, queue.get());
  connect(taker.get(), giver.get());
  for (int i = 0; i < 3; ++i) {
    ibv_sge list = sge(1000, 64);
    ibv_recv_wr wr{.wr_id = 1, .next = nullptr, .sg_list = &list, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
  }
  ibv_srq_attr limit{};
  limit.srq_limit = 3;
  ASSERT_EQ(ibv_modify_srq(srq.get(), &limit, IBV_SRQ_LIMIT), 0);
  ibv_srq_attr seen{};
  ASSERT_EQ(ibv_query_srq(srq.get(), &seen), 0);
  EXPECT_EQ(seen.srq_limit, 3u);
  for (int i = 0; i < 2; ++i) {
    ibv_sge list = sge(0, 8);
    ASSERT_EQ(post(giver.get(), send_wr(IBV_WR_SEND, &list)), 0);
  }
  await(queue.get(), 4);
  ibv_async_event event = await_async(IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq.get());
  ibv_ack_async_event(&event);
  EXPECT_FALSE(readable(context->async_fd, kNow));
  ASSERT_EQ(ibv_query_srq(srq.get(), &seen), 0);
  EXPECT_EQ(seen.srq_limit, 0u) << "it disarms itself";
}

TEST_F(Events, an_access_error_at_the_responder_is_an_event_of_its_queue_pair) {
  ibv_sge list = sge(0, 8);
  ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
  wr.wr.rdma = {reinterpret_cast<uintptr_t>(buffer.data()), mr->rkey ^ 0x5500};
  ASSERT_EQ(post(sender.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event = await_async(IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, receiver.get());
  ibv_ack_async_event(&event);
}

TEST_F(Events, a_queue_that_overruns_raises_its_error) {
  Cq small = cq(1);
  ibv_cq* const cq_that_breaks = small.get();
  Qp many = qp(IBV_QPT_RC, cq_that_breaks);
  bring_up(many.get(), sender->qp_num, IBV_QPS_INIT);
  for (int i = 0; i < small->cqe + 2; ++i) ASSERT_EQ(post_recv(many.get(), sge(0, 8)), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(many.get(), &error, IBV_QP_STATE), 0);
  ibv_async_event event = await_async(IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq_that_breaks);
  ibv_ack_async_event(&event);
  while (readable(context->async_fd, kNow)) {
    event = take_async();
    ibv_ack_async_event(&event);
  }
  many.reset();
}

}  // namespace
}  // namespace conformance
