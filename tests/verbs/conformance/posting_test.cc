// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_post_send(3), ibv_post_recv(3): what is refused, with which error, and what bad_wr says.
#include <unistd.h>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Posting : public Pair {};

TEST_F(Posting, before_its_state_a_request_is_refused) {
  Qp made = qp(IBV_QPT_RC, queue.get());
  ibv_sge list = sge(0, 8);
  EXPECT_EQ(post(made.get(), send_wr(IBV_WR_SEND, &list)), EINVAL);
  EXPECT_EQ(post_recv(made.get(), list), EINVAL);
  bring_up(made.get(), right->qp_num, IBV_QPS_INIT);
  EXPECT_EQ(post(made.get(), send_wr(IBV_WR_SEND, &list)), EINVAL);
  EXPECT_EQ(post_recv(made.get(), list), 0);
}

TEST_F(Posting, in_the_error_state_requests_are_flushed) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(left.get(), &a, IBV_QP_STATE), 0);
  ibv_sge list = sge(0, 8);
  EXPECT_EQ(post(left.get(), send_wr(IBV_WR_SEND, &list)), 0);
  EXPECT_EQ(post_recv(left.get(), list), 0);
  for (const ibv_wc& wc : await(queue.get(), 2)) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Posting, a_list_is_taken_up_to_the_bad_request) {
  ibv_sge list = sge(0, 8);
  ibv_send_wr wrs[3];
  for (ibv_send_wr& wr : wrs) wr = send_wr(IBV_WR_RDMA_WRITE, &list);
  for (ibv_send_wr& wr : wrs) {
    wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(buffer.data()) + 64;
    wr.wr.rdma.rkey = mr->rkey;
  }
  wrs[0].next = &wrs[1];
  wrs[1].next = &wrs[2];
  wrs[1].num_sge = 5;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(left.get(), wrs, &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[1]);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(queue.get(), 1, &wc), 0);
}

TEST_F(Posting, a_full_queue_says_so_at_its_limit) {
  Qp made = qp(IBV_QPT_RC, queue.get());
  bring_up(made.get(), right->qp_num, IBV_QPS_INIT);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(made.get(), &a, IBV_QP_CAP, &init), 0);
  for (uint32_t i = 0; i < a.cap.max_recv_wr; ++i) ASSERT_EQ(post_recv(made.get(), sge(0, 8)), 0) << i;
  EXPECT_EQ(post_recv(made.get(), sge(0, 8)), ENOMEM);
}

// Who posts until the queue is full, and polls elsewhere, never overruns a completion queue of that
// size.
TEST_F(Posting, a_request_takes_its_place_until_it_is_polled) {
  Qp made = qp(IBV_QPT_RC, queue.get()), peer = qp(IBV_QPT_RC, queue.get());
  connect(made.get(), peer.get());
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(made.get(), &attributes, IBV_QP_CAP, &init), 0);
  ibv_sge list = sge(0, 8);
  ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
  wr.wr.rdma = {reinterpret_cast<uintptr_t>(&buffer[64]), mr->rkey};
  const auto post_until_full = [&](uint32_t at_most) {
    uint32_t taken = 0;
    for (int quiet = 0; quiet < 50 && taken <= at_most; ++quiet) {
      while (post(made.get(), wr) == 0) ++taken, quiet = 0;
      usleep(1000);  // what was posted completes meanwhile
    }
    return taken;
  };
  EXPECT_EQ(post_until_full(init.cap.max_send_wr), init.cap.max_send_wr);
  await(queue.get(), 3);
  EXPECT_EQ(post_until_full(3), 3u);
  await(queue.get(), static_cast<int>(init.cap.max_send_wr));
  wr.send_flags = 0;  // nothing to poll: the place is free when it is done
  for (uint32_t i = 0; i < 3 * init.cap.max_send_wr; ++i) {
    int error = ENOMEM;
    for (int tries = 0; tries < 20'000 && (error = post(made.get(), wr)) == ENOMEM; ++tries) usleep(100);
    ASSERT_EQ(error, 0) << i;
  }
}

TEST_F(Posting, opcodes_that_the_type_has_not_are_refused) {
  Qp uc = qp(IBV_QPT_UC, queue.get()), ud = qp(IBV_QPT_UD, queue.get());
  bring_up(uc.get(), right->qp_num);
  bring_up(ud.get(), 0);
  ibv_sge list = sge(0, 8);
  EXPECT_EQ(post(uc.get(), send_wr(IBV_WR_RDMA_READ, &list)), EINVAL);
  EXPECT_EQ(post(uc.get(), send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &list)), EINVAL);
  EXPECT_EQ(post(ud.get(), send_wr(IBV_WR_RDMA_WRITE, &list)), EINVAL);
  EXPECT_EQ(post(ud.get(), send_wr(IBV_WR_SEND, &list)), EINVAL) << "without an address handle";
  EXPECT_EQ(post(left.get(), send_wr(IBV_WR_TSO, &list)), EINVAL);
}

TEST_F(Posting, inline_data_is_taken_at_once_and_limited) {
  std::vector<char> mine(64, 'x');
  ibv_sge unregistered{reinterpret_cast<uintptr_t>(mine.data()), 64, 0};
  ibv_send_wr wr = send_wr(IBV_WR_SEND, &unregistered);
  wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(post_recv(right.get(), sge(0, 128)), 0);
  ASSERT_EQ(post(left.get(), wr), 0);
  std::fill(mine.begin(), mine.end(), 'y');
  for (const ibv_wc& wc : await(queue.get(), 2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(buffer[0], 'x');
  EXPECT_EQ(buffer[63], 'x');
  std::vector<char> large(2000);
  unregistered = {reinterpret_cast<uintptr_t>(large.data()), 2000, 0};
  EXPECT_EQ(post(left.get(), wr), EINVAL);
}

TEST_F(Posting, a_message_of_many_pieces_arrives_in_order) {
  for (int i = 0; i < 4; ++i) buffer[static_cast<size_t>(i) * 100] = static_cast<char>('a' + i);
  ibv_sge pieces[4];
  for (uint32_t i = 0; i < 4; ++i) pieces[i] = sge(i * 100, 1);
  ASSERT_EQ(post_recv(right.get(), sge(1000, 100)), 0);
  ASSERT_EQ(post(left.get(), send_wr(IBV_WR_SEND, pieces, 4)), 0);
  for (const ibv_wc& wc : await(queue.get(), 2)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_RECV) {
      EXPECT_EQ(wc.byte_len, 4u);
    }
  }
  EXPECT_EQ(std::memcmp(&buffer[1000], "abcd", 4), 0);
}

TEST_F(Posting, atomics_and_reads_return_the_old_value) {
  const auto word = [this](size_t offset) -> uint64_t& {
    return *reinterpret_cast<uint64_t*>(&buffer[offset]);
  };
  word(0) = 0, word(64) = 40;
  ibv_sge list = sge(0, 8);
  ibv_send_wr wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &list);
  wr.wr.atomic = {reinterpret_cast<uintptr_t>(&buffer[64]), 2, 0, mr->rkey};
  ASSERT_EQ(post(left.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(word(0), 40u);
  EXPECT_EQ(word(64), 42u);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic = {reinterpret_cast<uintptr_t>(&buffer[64]), 42, 7, mr->rkey};
  ASSERT_EQ(post(left.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(0), 42u);
  EXPECT_EQ(word(64), 7u);
  wr = send_wr(IBV_WR_RDMA_READ, &list);
  wr.wr.rdma = {reinterpret_cast<uintptr_t>(&buffer[64]), mr->rkey};
  ASSERT_EQ(post(left.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(word(0), 7u);
}

TEST_F(Posting, unsignaled_requests_complete_silently) {
  ibv_sge list = sge(0, 8);
  ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
  wr.wr.rdma = {reinterpret_cast<uintptr_t>(&buffer[64]), mr->rkey};
  wr.send_flags = 0;
  ASSERT_EQ(post(left.get(), wr), 0);
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr_id = 99;
  ASSERT_EQ(post(left.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().wr_id, 99u);
}

}  // namespace
}  // namespace conformance
