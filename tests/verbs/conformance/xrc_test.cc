// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_open_xrcd(3), ibv_create_srq_ex(3), ibv_open_qp(3).
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Xrc : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    if (HasFatalFailure()) return;
    char name[] = "/tmp/conformance-xrcd-XXXXXX";
    file = mkstemp(name);
    ASSERT_GE(file, 0);
    unlink(name);
    domain = open_domain(file);
    ASSERT_NE(domain, nullptr);
    ibv_srq_init_attr_ex init{};
    init.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
    init.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = pd.get();
    init.xrcd = domain.get();
    init.cq = queue.get();
    srq.reset(ibv_create_srq_ex(context, &init));
    ASSERT_NE(srq, nullptr);
    target = make_target(domain.get());
    ibv_qp_init_attr_ex with_pd{};
    with_pd.qp_type = IBV_QPT_XRC_SEND;
    with_pd.comp_mask = IBV_QP_INIT_ATTR_PD;
    with_pd.pd = pd.get();
    with_pd.send_cq = queue.get();
    with_pd.cap = {8, 0, 2, 0, 0};
    initiator.reset(ibv_create_qp_ex(context, &with_pd));
    ASSERT_TRUE(target && initiator);
    up(initiator.get(), target->qp_num);
    up(target.get(), initiator->qp_num);
  }
  void TearDown() override {
    initiator.reset(), target.reset(), srq.reset(), domain.reset();
    if (file >= 0) close(file);
    Pair::TearDown();
  }
  Xrcd open_domain(int fd, int flags = O_CREAT) {
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    init.fd = fd;
    init.oflags = flags;
    return Xrcd(ibv_open_xrcd(context, &init));
  }
  Qp make_target(ibv_xrcd* of) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = of;
    return Qp(ibv_create_qp_ex(context, &init));
  }
  void up(ibv_qp* which, uint32_t peer) {
    const bool is_target = which->qp_type == IBV_QPT_XRC_RECV;
    const int rtr =
        mask_to(IBV_QPS_RTR, IBV_QPT_UC) | (is_target ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    const int rts =
        is_target ? IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT : mask_to(IBV_QPS_RTS, IBV_QPT_RC);
    const std::pair<ibv_qp_state, int> steps[] = {
        {IBV_QPS_INIT, mask_to(IBV_QPS_INIT, IBV_QPT_RC)}, {IBV_QPS_RTR, rtr}, {IBV_QPS_RTS, rts}};
    for (const auto& [state, mask] : steps) {
      ibv_qp_attr a = attributes_to(state, gid, gid_index, peer);
      ASSERT_EQ(ibv_modify_qp(which, &a, mask), 0) << "type " << which->qp_type << " to " << state;
    }
  }
  void receive_one_message() {
    ibv_sge into = sge(1000, 64);
    ibv_recv_wr recv{.wr_id = 5, .next = nullptr, .sg_list = &into, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &recv, &bad), 0);
    uint32_t number = 0;
    ASSERT_EQ(ibv_get_srq_num(srq.get(), &number), 0);
    ibv_sge from = sge(0, 8);
    ibv_send_wr wr = send_wr(IBV_WR_SEND, &from);
    wr.qp_type.xrc.remote_srqn = number;
    ASSERT_EQ(post(initiator.get(), wr), 0);
    for (const ibv_wc& wc : await(queue.get(), 2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }

  int file = -1;
  Xrcd domain;
  Srq srq;
  Qp target, initiator;
};

TEST_F(Xrc, a_message_lands_in_the_queue_that_it_names) {
  receive_one_message();
}

TEST_F(Xrc, one_sided_requests_reach_memory_of_the_queues_domain) {
  uint32_t number = 0;
  ASSERT_EQ(ibv_get_srq_num(srq.get(), &number), 0);
  ibv_sge list = sge(0, 8);
  ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
  wr.wr.rdma = {reinterpret_cast<uintptr_t>(&buffer[512]), mr->rkey};
  wr.qp_type.xrc.remote_srqn = number;
  ASSERT_EQ(post(initiator.get(), wr), 0);
  EXPECT_EQ(await(queue.get(), 1).front().status, IBV_WC_SUCCESS);
}

TEST_F(Xrc, a_domain_in_use_is_busy_and_is_shared_by_its_file) {
  EXPECT_EQ(ibv_close_xrcd(domain.get()), EBUSY);
  const Xrcd again = open_domain(file, 0);
  EXPECT_NE(again, nullptr) << "it exists, so O_CREAT is not needed";
  ibv_xrcd_init_attr init{};
  init.comp_mask = IBV_XRCD_INIT_ATTR_FD;
  EXPECT_EQ(ibv_open_xrcd(context, &init), nullptr);
}

TEST_F(Xrc, a_target_lives_until_its_last_handle_goes) {
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = target->qp_num + 1;
  open.xrcd = domain.get();
  open.qp_type = IBV_QPT_XRC_RECV;
  errno = 0;
  EXPECT_EQ(ibv_open_qp(context, &open), nullptr);
  EXPECT_EQ(errno, EINVAL);
  open.qp_num = target->qp_num;
  Qp other(ibv_open_qp(context, &open));
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->qp_num, target->qp_num);
  target.reset();
  receive_one_message();
  other.reset();
}

// librdmacm names the domain to a target and makes the queue in the domain that the target then shows.
TEST_F(Xrc, a_target_shows_the_protection_domain_that_it_was_given) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD;
  init.xrcd = domain.get();
  init.pd = pd.get();
  const Qp given(ibv_create_qp_ex(context, &init));
  ASSERT_NE(given, nullptr);
  EXPECT_EQ(given->pd, pd.get());
  EXPECT_EQ(target->pd, nullptr);
}

TEST_F(Xrc, a_queue_without_its_parts_is_refused) {
  ibv_srq_init_attr_ex whole{};
  whole.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
  whole.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  whole.srq_type = IBV_SRQT_XRC;
  whole.pd = pd.get();
  whole.xrcd = domain.get();
  whole.cq = queue.get();
  const auto refused = [this](ibv_srq_init_attr_ex init) {
    errno = 0;
    return Srq(ibv_create_srq_ex(context, &init)) == nullptr && errno == EINVAL;
  };
  EXPECT_FALSE(refused(whole));
  ibv_srq_init_attr_ex without = whole;
  without.pd = nullptr;
  EXPECT_TRUE(refused(without));
  without = whole, without.xrcd = nullptr;
  EXPECT_TRUE(refused(without));
  without = whole, without.cq = nullptr;
  EXPECT_TRUE(refused(without));
}

TEST_F(Xrc, a_target_takes_no_requests) {
  ibv_sge list = sge(0, 8);
  EXPECT_EQ(post(target.get(), send_wr(IBV_WR_SEND, &list)), EINVAL);
  EXPECT_EQ(post_recv(target.get(), list), EINVAL);
  EXPECT_EQ(post_recv(initiator.get(), list), EINVAL);
}

}  // namespace
}  // namespace conformance
