// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Verbs are thread safe: one queue pair, one completion queue and one domain used by many threads at once.
#include <atomic>
#include <thread>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Threads : public Pair {
 protected:
  static constexpr int kPosters = 3, kPollers = 2, kEach = 300;

  // Posts until the queue takes it.
  void post_write(ibv_qp* on, uint64_t id) {
    ibv_sge list = sge(0, 8);
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
    wr.wr_id = id;
    wr.wr.rdma = {reinterpret_cast<uintptr_t>(&buffer[4096]), mr->rkey};
    int error = 0;
    while ((error = post(on, wr)) == ENOMEM) std::this_thread::yield();
    EXPECT_EQ(error, 0);
  }
};

TEST_F(Threads, posters_and_pollers_share_the_queues) {
  std::atomic<int> completed{0};
  std::vector<std::atomic<int>> seen(kPosters * kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < kPosters; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i)
        post_write(i % 2 == 0 ? left.get() : right.get(), static_cast<uint64_t>(t * kEach + i));
    });
  }
  for (int t = 0; t < kPollers; ++t) {
    threads.emplace_back([&] {
      ibv_wc wc[4];
      while (completed < kPosters * kEach) {
        const int got = ibv_poll_cq(queue.get(), 4, wc);
        ASSERT_GE(got, 0);
        for (int i = 0; i < got; ++i) {
          EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
          ++seen[wc[i].wr_id];
        }
        completed += got;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
}

// Places are given back by polling and only then, so the completion queue need not be larger than the queue.
TEST_F(Threads, who_posts_until_the_queue_is_full_never_overruns_a_queue_of_its_size) {
  constexpr uint64_t kMany = 20'000;
  Qp peer = qp(IBV_QPT_RC, queue.get());
  ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, queue.get());
  const Cq sized(ibv_create_cq(context, static_cast<int>(init.cap.max_send_wr), nullptr, nullptr, 0));
  init.send_cq = sized.get();
  const Qp made(ibv_create_qp(pd.get(), &init));
  ASSERT_NE(made, nullptr);
  ASSERT_EQ(static_cast<uint32_t>(sized->cqe), init.cap.max_send_wr) << "no room to spare";
  connect(made.get(), peer.get());
  std::atomic<bool> failed{false};
  std::thread poster([&] {
    ibv_sge list = sge(0, 8);
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
    wr.wr.rdma = {reinterpret_cast<uintptr_t>(&buffer[4096]), mr->rkey};
    for (uint64_t i = 0; i < kMany && !failed; ++i) {
      wr.wr_id = i;
      int error = 0;
      while ((error = post(made.get(), wr)) == ENOMEM && !failed) std::this_thread::yield();
      if (error != 0) failed = true;
    }
  });
  uint64_t next = 0;
  const time_t start = time(nullptr);
  while (next < kMany && !failed && time(nullptr) - start < 60) {
    ibv_wc wc[16];
    const int got = ibv_poll_cq(sized.get(), 16, wc);
    for (int i = 0; i < got; ++i) failed = failed || wc[i].status != IBV_WC_SUCCESS || wc[i].wr_id != next++;
    failed = failed || got < 0;
  }
  if (next < kMany) failed = true;
  poster.join();
  EXPECT_FALSE(failed) << next << " completions were good";
  peer.reset();
}

// Several threads fill one shared queue, several queue pairs empty it, pollers wait for events on one
// channel.
TEST_F(Threads, a_shared_receive_queue_and_a_channel_are_everybodys) {
  constexpr int kSenders = 3;
  const Channel channel(ibv_create_comp_channel(context));
  const Cq received(ibv_create_cq(context, kSenders * kEach, nullptr, channel.get(), 0));
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
  const Srq srq(ibv_create_srq(pd.get(), &init));
  std::vector<Cq> sent;
  std::vector<Qp> from, to;
  for (int i = 0; i < kSenders; ++i) {
    sent.push_back(cq());
    from.push_back(qp(IBV_QPT_RC, sent.back().get()));
    ibv_qp_init_attr taker = init_attributes(IBV_QPT_RC, received.get());
    taker.srq = srq.get();
    to.emplace_back(ibv_create_qp(pd.get(), &taker));
    connect(from.back().get(), to.back().get());
  }
  std::atomic<int> completed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {  // receives: as many as there are messages, in two halves
    threads.emplace_back([&, t] {
      for (int i = t; i < kSenders * kEach; i += 2) {
        ibv_sge list = sge(8192, 64);
        ibv_recv_wr wr{.wr_id = 1, .next = nullptr, .sg_list = &list, .num_sge = 1};
        ibv_recv_wr* bad = nullptr;
        int error = 0;
        while ((error = ibv_post_srq_recv(srq.get(), &wr, &bad)) == ENOMEM) std::this_thread::yield();
        ASSERT_EQ(error, 0);
      }
    });
  }
  for (int t = 0; t < kSenders; ++t) {
    threads.emplace_back([&, t] {
      const auto of_mine = static_cast<size_t>(t);
      for (int i = 0; i < kEach; ++i) {
        ibv_sge list = sge(0, 8);
        ASSERT_EQ(post(from[of_mine].get(), send_wr(IBV_WR_SEND, &list)), 0);
        const std::vector<ibv_wc> done = await(sent[of_mine].get(), 1);
        ASSERT_EQ(done.size(), 1u);
        EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
      }
    });
  }
  const auto drain = [&] {
    ibv_wc wc[8];
    int got = 0;
    while ((got = ibv_poll_cq(received.get(), 8, wc)) > 0) {
      for (int i = 0; i < got; ++i) EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
      completed += got;
    }
    EXPECT_EQ(got, 0);
  };
  while (completed < kSenders * kEach) {
    ASSERT_EQ(ibv_req_notify_cq(received.get(), 0), 0);
    drain();
    if (completed == kSenders * kEach) break;
    ibv_cq* of = nullptr;
    void* its = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &of, &its), 0);
    ibv_ack_cq_events(of, 1);
    drain();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed, kSenders * kEach);
  from.clear(), to.clear(), sent.clear();
}

TEST_F(Threads, objects_come_and_go_beside_traffic) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    std::vector<char> bytes(4096);
    while (!over) EXPECT_NE(region(bytes), nullptr);
  });
  threads.emplace_back([&] {
    while (!over) {
      Qp made = qp(IBV_QPT_RC, queue.get());
      ASSERT_NE(made, nullptr);
      bring_up(made.get(), left->qp_num);
      ibv_qp_attr attributes{};
      ibv_qp_init_attr init{};
      EXPECT_EQ(ibv_query_qp(made.get(), &attributes, IBV_QP_STATE, &init), 0);
      EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
    }
  });
  threads.emplace_back([&] {
    while (!over) {
      EXPECT_EQ(ibv_resize_cq(queue.get(), 300), 0);
      ibv_ah_attr attributes = attributes_to(IBV_QPS_RTR, gid, gid_index, 0).ah_attr;
      const Ah ah(ibv_create_ah(pd.get(), &attributes));
      EXPECT_NE(ah, nullptr);
    }
  });
  for (uint64_t i = 0; i < kEach; ++i) {
    post_write(left.get(), i);
    EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace conformance
