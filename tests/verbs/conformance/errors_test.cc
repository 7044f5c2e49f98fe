// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which status, on which side, and which event (ibv_poll_cq(3), ibv_get_async_event(3), IBA chapter 9).
#include <poll.h>
#include <unistd.h>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Errors : public Pair {
 protected:
  void TearDown() override {
    active.reset(), passive.reset(), received.reset(), far.reset();
    Pair::TearDown();
  }
  // `active` asks with completions in `queue`, `passive` answers with completions in `received`.
  void make(ibv_srq* srq = nullptr) {
    active.reset(), passive.reset();
    if (!received) received = cq();
    active = qp(IBV_QPT_RC, queue.get());
    ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, received.get());
    init.srq = srq;
    passive.reset(ibv_create_qp(pd.get(), &init));
    ASSERT_TRUE(active && passive);
  }
  // One side with attributes of its own.
  void bring_up_with(ibv_qp* side, const ibv_qp* peer, void (*change)(ibv_qp_attr&)) {
    for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      ibv_qp_attr a = attributes_to(state, gid, gid_index, peer->qp_num);
      change(a);
      ASSERT_EQ(ibv_modify_qp(side, &a, mask_to(state, IBV_QPT_RC)), 0);
    }
  }
  static void as_it_is(ibv_qp_attr&) {}
  void connect_with(void (*of_active)(ibv_qp_attr&), void (*of_passive)(ibv_qp_attr&) = as_it_is,
                    ibv_srq* srq = nullptr) {
    make(srq);
    bring_up_with(active.get(), passive.get(), of_active);
    bring_up_with(passive.get(), active.get(), of_passive);
  }
  ibv_send_wr one_sided(ibv_wr_opcode opcode, ibv_sge* list, uint64_t remote, uint32_t rkey) {
    ibv_send_wr wr = send_wr(opcode, list);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic = {.remote_addr = remote, .compare_add = 1, .swap = 0, .rkey = rkey};
    } else {
      wr.wr.rdma = {remote, rkey};
    }
    return wr;
  }
  ibv_wc_status outcome(const ibv_send_wr& wr) {
    EXPECT_EQ(post(active.get(), wr), 0);
    const std::vector<ibv_wc> done = await(queue.get(), 1);
    return done.empty() ? IBV_WC_GENERAL_ERR : done.front().status;
  }
  ibv_qp_state state_of(ibv_qp* of) {
    ibv_qp_attr a{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(of, &a, IBV_QP_STATE, &init), 0);
    return a.qp_state;
  }
  // Every event that waits, or that comes within a long time where one of `type` is missing.
  int count_events(ibv_event_type type, const ibv_qp* of) {
    int found = 0;
    for (pollfd p{context->async_fd, POLLIN, 0}; poll(&p, 1, found == 0 ? 20'000 : 20) == 1;) {
      ibv_async_event event;
      if (ibv_get_async_event(context, &event) != 0) break;
      found += event.event_type == type && event.element.qp == of;
      ibv_ack_async_event(&event);
    }
    return found;
  }
  uint64_t remote(uint32_t offset) const { return reinterpret_cast<uintptr_t>(buffer.data()) + offset; }

  Cq received;
  Qp active, passive;
  Pd other_domain;
  Mr far;
};

// The queue pair's rights answer otherwise than the region's.
TEST_F(Errors, rights_of_the_queue_pair_and_of_the_region) {
  static constexpr ibv_wr_opcode kOneSided[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                IBV_WR_ATOMIC_FETCH_AND_ADD};
  far = region(buffer, IBV_ACCESS_LOCAL_WRITE);
  for (const ibv_wr_opcode opcode : kOneSided) {
    ibv_sge list = sge(0, 8);
    connect_with(as_it_is, [](ibv_qp_attr& a) { a.qp_access_flags = 0; });
    EXPECT_EQ(outcome(one_sided(opcode, &list, remote(64), mr->rkey)), IBV_WC_REM_INV_REQ_ERR) << opcode;
    EXPECT_EQ(count_events(IBV_EVENT_QP_REQ_ERR, passive.get()), 1) << opcode;
    connect_with(as_it_is);
    EXPECT_EQ(outcome(one_sided(opcode, &list, remote(64), far->rkey)), IBV_WC_REM_ACCESS_ERR) << opcode;
    EXPECT_EQ(count_events(IBV_EVENT_QP_ACCESS_ERR, passive.get()), 1) << opcode;
    EXPECT_EQ(state_of(passive.get()), IBV_QPS_ERR);
    EXPECT_EQ(state_of(active.get()), IBV_QPS_ERR);
    connect_with(as_it_is);
    list.lkey ^= 0x100;
    EXPECT_EQ(outcome(one_sided(opcode, &list, remote(64), mr->rkey)), IBV_WC_LOC_PROT_ERR) << opcode;
  }
}

TEST_F(Errors, a_reads_and_an_atomics_target_must_be_writable_here) {
  far = region(buffer, IBV_ACCESS_REMOTE_READ);
  connect_with(as_it_is);
  ibv_sge list = sge(0, 8);
  list.lkey = far->lkey;
  EXPECT_EQ(outcome(one_sided(IBV_WR_RDMA_READ, &list, remote(64), mr->rkey)), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Errors, an_atomic_needs_an_aligned_word) {
  connect_with(as_it_is);
  ibv_sge list = sge(0, 8);
  EXPECT_EQ(outcome(one_sided(IBV_WR_ATOMIC_FETCH_AND_ADD, &list, remote(65), mr->rkey)),
            IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Errors, a_receive_that_is_too_small) {
  connect_with(as_it_is);
  ASSERT_EQ(post_recv(passive.get(), sge(1000, 64), 44), 0);
  ibv_sge list = sge(0, 100);
  EXPECT_EQ(outcome(send_wr(IBV_WR_SEND, &list)), IBV_WC_REM_INV_REQ_ERR);
  const std::vector<ibv_wc> there = await(received.get(), 1);
  ASSERT_EQ(there.size(), 1u);
  EXPECT_EQ(there[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(there[0].wr_id, 44u);
  EXPECT_EQ(there[0].qp_num, passive->qp_num);
  EXPECT_EQ(state_of(passive.get()), IBV_QPS_ERR);
}

TEST_F(Errors, nobody_receives) {
  connect_with([](ibv_qp_attr& a) { a.rnr_retry = 0; });
  ibv_sge list = sge(0, 8);
  EXPECT_EQ(outcome(send_wr(IBV_WR_SEND, &list)), IBV_WC_RNR_RETRY_EXC_ERR);
  connect_with([](ibv_qp_attr& a) { a.rnr_retry = 2; });
  EXPECT_EQ(outcome(send_wr(IBV_WR_SEND, &list)), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(state_of(passive.get()), IBV_QPS_RTS) << "the receiver did nothing wrong";
  connect_with(as_it_is);  // 7: for ever
  ASSERT_EQ(post(active.get(), send_wr(IBV_WR_SEND, &list)), 0);
  usleep(50'000);
  ASSERT_EQ(post_recv(passive.get(), sge(1000, 64)), 0);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
}

TEST_F(Errors, the_peer_is_gone) {
  connect_with([](ibv_qp_attr& a) { a.timeout = 1, a.retry_cnt = 1; });
  passive.reset();
  ibv_sge list = sge(0, 8);
  ASSERT_EQ(post(active.get(), one_sided(IBV_WR_RDMA_WRITE, &list, remote(64), mr->rkey)), 0);
  ASSERT_EQ(post(active.get(), one_sided(IBV_WR_RDMA_WRITE, &list, remote(64), mr->rkey)), 0);
  const std::vector<ibv_wc> done = await(queue.get(), 2);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(done[1].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Errors, a_depth_of_zero_admits_no_read) {
  ibv_sge list = sge(0, 8);
  connect_with(as_it_is, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 0; });
  EXPECT_EQ(outcome(one_sided(IBV_WR_RDMA_READ, &list, remote(64), mr->rkey)), IBV_WC_REM_INV_REQ_ERR);
  connect_with([](ibv_qp_attr& a) { a.max_rd_atomic = 0; });
  EXPECT_EQ(outcome(one_sided(IBV_WR_RDMA_READ, &list, remote(64), mr->rkey)), IBV_WC_LOC_QP_OP_ERR);
}

// Nothing is looked at that is not used.
TEST_F(Errors, messages_of_no_bytes_need_no_keys) {
  connect_with(as_it_is);
  ibv_recv_wr nothing{};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(ibv_post_recv(passive.get(), &nothing, &bad), 0);
  ibv_sge junk{1, 0, 0xdead};
  for (const bool with_piece : {false, true}) {
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
      ibv_send_wr wr = one_sided(opcode, &junk, 1, 0xdead);
      wr.num_sge = with_piece ? 1 : 0;
      EXPECT_EQ(outcome(wr), IBV_WC_SUCCESS) << opcode << " with " << wr.num_sge << " pieces";
    }
  }
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    ibv_send_wr wr = one_sided(opcode, &junk, 1, 0xdead);
    wr.imm_data = htobe32(9);
    wr.send_flags |= opcode == IBV_WR_SEND ? IBV_SEND_INLINE : 0;
    EXPECT_EQ(outcome(wr), IBV_WC_SUCCESS) << opcode;
  }
  for (const ibv_wc& wc : await(received.get(), 3)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, 0u);
  }
  ASSERT_EQ(ibv_post_recv(passive.get(), &nothing, &bad), 0);
  ibv_sge one = sge(0, 1);
  EXPECT_EQ(outcome(send_wr(IBV_WR_SEND, &one)), IBV_WC_REM_INV_REQ_ERR);
}

// What was posted before and after, in the order of each queue, marked or not.
TEST_F(Errors, everything_posted_is_flushed_in_order) {
  connect_with(as_it_is);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(post_recv(active.get(), sge(1000, 8), 100 + i), 0);
  ASSERT_EQ(ibv_modify_qp(active.get(), &error, IBV_QP_STATE), 0);
  ibv_sge list = sge(0, 8);
  for (uint64_t i = 0; i < 5; ++i) {
    ibv_send_wr wr = send_wr(IBV_WR_SEND, &list);
    wr.wr_id = i;
    wr.send_flags = 0;
    ASSERT_EQ(post(active.get(), wr), 0);
  }
  ASSERT_EQ(post_recv(active.get(), sge(1000, 8), 105), 0);
  uint64_t next_send = 0, next_receive = 100;
  for (const ibv_wc& wc : await(queue.get(), 11)) {
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.qp_num, active->qp_num);
    uint64_t& next = wc.wr_id < 100 ? next_send : next_receive;
    EXPECT_EQ(wc.wr_id, next++);
  }
  EXPECT_EQ(state_of(passive.get()), IBV_QPS_RTS);
}

// With a shared queue the flush of receives cannot tell when the last one is through; this event does.
TEST_F(Errors, a_queue_pair_with_a_shared_queue_tells_its_last_receive) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  const Srq srq(ibv_create_srq(pd.get(), &init));
  connect_with(as_it_is, as_it_is, srq.get());
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(passive.get(), &error, IBV_QP_STATE), 0);
  EXPECT_EQ(count_events(IBV_EVENT_QP_LAST_WQE_REACHED, passive.get()), 1);
  active.reset(), passive.reset();
}

TEST_F(Errors, while_the_send_queue_drains_new_requests_wait) {
  connect_with(as_it_is);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_SQD;
  ASSERT_EQ(ibv_modify_qp(active.get(), &a, IBV_QP_STATE), 0);
  ibv_sge list = sge(0, 8);
  ASSERT_EQ(post(active.get(), one_sided(IBV_WR_RDMA_WRITE, &list, remote(64), mr->rkey)), 0);
  usleep(20'000);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(queue.get(), 1, &wc), 0);
  a.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(active.get(), &a, IBV_QP_STATE), 0);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
}

// The domain comes before the bounds.
TEST_F(Errors, a_key_of_another_domain) {
  other_domain.reset(ibv_alloc_pd(context));
  far.reset(ibv_reg_mr(other_domain.get(), buffer.data(), buffer.size(), kAllAccess));
  ASSERT_NE(far, nullptr);
  ibv_sge list = sge(0, 8);
  connect_with(as_it_is);
  EXPECT_EQ(outcome(one_sided(IBV_WR_RDMA_WRITE, &list, remote(64), far->rkey)), IBV_WC_REM_ACCESS_ERR);
  connect_with(as_it_is);
  list.lkey = far->lkey;
  EXPECT_EQ(outcome(one_sided(IBV_WR_RDMA_WRITE, &list, remote(64), mr->rkey)), IBV_WC_LOC_PROT_ERR);
  far.reset(), other_domain.reset();
}

}  // namespace
}  // namespace conformance
