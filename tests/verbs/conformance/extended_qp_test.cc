// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_create_qp_ex(3), ibv_wr_post(3).
#include <unistd.h>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

constexpr uint64_t kOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                          IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                          IBV_QP_EX_WITH_ATOMIC_WRITE;

class ExtendedQp : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    if (HasFatalFailure()) return;
    made = extended(IBV_QPT_RC, kOps);
    ASSERT_NE(made, nullptr);
    ex = ibv_qp_to_qp_ex(made.get());
    ASSERT_NE(ex, nullptr);
    peer = qp(IBV_QPT_RC, queue.get());
    connect(made.get(), peer.get());
  }
  void TearDown() override {
    made.reset(), peer.reset();
    Pair::TearDown();
  }
  Qp extended(ibv_qp_type type, uint64_t ops) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = queue.get();
    init.cap = {8, 8, 4, 4, 64};
    init.qp_type = type;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd.get();
    init.send_ops_flags = ops;
    return Qp(ibv_create_qp_ex(context, &init));
  }
  void begin(uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
    ex->wr_id = id;
    ex->wr_flags = flags;
  }
  uint64_t remote(size_t offset) const { return reinterpret_cast<uintptr_t>(buffer.data()) + offset; }

  Qp made, peer;
  ibv_qp_ex* ex = nullptr;
};

TEST_F(ExtendedQp, several_requests_are_posted_by_one_complete) {
  buffer[0] = 'w', buffer[1] = 's';
  ASSERT_EQ(post_recv(peer.get(), sge(2000, 16)), 0);
  ibv_wr_start(ex);
  begin(1);
  ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
  ibv_wr_set_sge(ex, mr->lkey, remote(0), 1);
  begin(2);
  ibv_wr_send_imm(ex, htobe32(0x12345678));
  ibv_sge list[2] = {sge(1, 1), sge(0, 1)};
  ibv_wr_set_sge_list(ex, 2, list);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  int sends = 0;
  for (const ibv_wc& wc : await(queue.get(), 3)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    sends += wc.opcode != IBV_WC_RECV;
    if (wc.opcode != IBV_WC_RECV) continue;
    EXPECT_EQ(wc.byte_len, 2u);
    EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0u);
    EXPECT_EQ(be32toh(wc.imm_data), 0x12345678u);
  }
  EXPECT_EQ(sends, 2);
  EXPECT_EQ(buffer[1000], 'w');
  EXPECT_EQ(std::memcmp(&buffer[2000], "sw", 2), 0);
}

TEST_F(ExtendedQp, a_list_that_does_not_fit_is_refused_whole_until_completions_are_polled) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(&ex->qp_base, &attributes, IBV_QP_CAP, &init), 0);
  const auto count = static_cast<int>(init.cap.max_send_wr);
  const auto write = [&](int requests) {
    ibv_wr_start(ex);
    for (int i = 0; i < requests; ++i) {
      begin(static_cast<uint64_t>(i));
      ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
      ibv_wr_set_sge(ex, mr->lkey, remote(0), 1);
    }
    return ibv_wr_complete(ex);
  };
  ASSERT_EQ(write(count - 1), 0);
  EXPECT_EQ(write(2), ENOMEM);
  usleep(20'000);  // all is done by now, and not polled
  EXPECT_EQ(write(2), ENOMEM);
  await(queue.get(), 1);
  EXPECT_EQ(write(2), 0);
  await(queue.get(), count);
}

TEST_F(ExtendedQp, abort_posts_nothing) {
  ibv_wr_start(ex);
  begin(1);
  ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
  ibv_wr_set_sge(ex, mr->lkey, remote(0), 1);
  ibv_wr_abort(ex);
  ibv_wr_start(ex);
  begin(2);
  ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
  ibv_wr_set_sge(ex, mr->lkey, remote(0), 1);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(await(queue.get(), 1).front().wr_id, 2u);
}

TEST_F(ExtendedQp, an_error_anywhere_posts_none_of_them) {
  ibv_sge list[5] = {};
  for (ibv_sge& entry : list) entry = sge(0, 1);
  ibv_wr_start(ex);
  begin(1);
  ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
  ibv_wr_set_sge(ex, mr->lkey, remote(0), 1);
  begin(2);
  ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
  ibv_wr_set_sge_list(ex, 5, list);
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
  ibv_wr_start(ex);
  for (uint64_t i = 0; i < 9; ++i) {
    begin(10 + i);
    ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
    ibv_wr_set_sge(ex, mr->lkey, remote(0), 1);
  }
  EXPECT_EQ(ibv_wr_complete(ex), ENOMEM) << "one more than the queue has room for";
  ibv_wr_start(ex);
  begin(100);
  ibv_wr_rdma_write(ex, mr->rkey, remote(1000));
  ibv_wr_set_sge(ex, mr->lkey, remote(0), 1);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(await(queue.get(), 1).front().wr_id, 100u);
}

TEST_F(ExtendedQp, inline_data_is_copied_when_it_is_set) {
  char word[8] = "inline!", more[4] = "abc";
  ASSERT_EQ(post_recv(peer.get(), sge(2000, 64)), 0);
  ibv_wr_start(ex);
  begin(1);
  ibv_wr_send(ex);
  const ibv_data_buf parts[2] = {{word, 7}, {more, 3}};
  ibv_wr_set_inline_data_list(ex, 2, parts);
  std::memset(word, '#', sizeof(word));
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  await(queue.get(), 2);
  EXPECT_EQ(std::memcmp(&buffer[2000], "inline!abc", 10), 0);
  ibv_wr_start(ex);
  begin(2);
  ibv_wr_send(ex);
  std::vector<char> large(65536);
  ibv_wr_set_inline_data(ex, large.data(), large.size());
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

TEST_F(ExtendedQp, atomics_and_an_atomic_write) {
  auto& target = *reinterpret_cast<uint64_t*>(&buffer[512]);
  target = 5;
  const uint64_t written = 0x1122334455667788;
  ibv_wr_start(ex);
  begin(1);
  ibv_wr_atomic_fetch_add(ex, mr->rkey, remote(512), 3);
  ibv_wr_set_sge(ex, mr->lkey, remote(0), 8);
  begin(2, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  ibv_wr_atomic_cmp_swp(ex, mr->rkey, remote(512), 8, 21);
  ibv_wr_set_sge(ex, mr->lkey, remote(8), 8);
  begin(3, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  ibv_wr_atomic_write(ex, mr->rkey, remote(520), &written);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  for (const ibv_wc& wc : await(queue.get(), 3)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(&buffer[0]), 5u);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(&buffer[8]), 8u);
  EXPECT_EQ(target, 21u);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(&buffer[520]), written);
}

TEST_F(ExtendedQp, operations_that_a_type_has_not_are_refused_at_creation) {
  errno = 0;
  EXPECT_EQ(extended(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(extended(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(extended(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(ExtendedQp, a_plain_queue_pair_is_no_extended_one) {
  EXPECT_EQ(ibv_qp_to_qp_ex(left.get()), nullptr);
}

TEST_F(ExtendedQp, before_its_state_complete_is_refused) {
  Qp fresh = extended(IBV_QPT_RC, kOps);
  ibv_qp_ex* const other = ibv_qp_to_qp_ex(fresh.get());
  ibv_wr_start(other);
  other->wr_id = 1;
  other->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(other);
  ibv_wr_set_sge(other, mr->lkey, remote(0), 1);
  EXPECT_EQ(ibv_wr_complete(other), EINVAL);
}

TEST_F(ExtendedQp, a_datagram_takes_its_address_from_a_setter) {
  Qp from = extended(IBV_QPT_UD, IBV_QP_EX_WITH_SEND), to = qp(IBV_QPT_UD, queue.get());
  bring_up(from.get(), 0);
  bring_up(to.get(), 0);
  ibv_ah_attr attributes = attributes_to(IBV_QPS_RTR, gid, gid_index, 0).ah_attr;
  const Ah ah(ibv_create_ah(pd.get(), &attributes));
  ASSERT_NE(ah, nullptr);
  buffer[0] = 'd';
  ASSERT_EQ(post_recv(to.get(), sge(3000, 200)), 0);
  ibv_qp_ex* const sender = ibv_qp_to_qp_ex(from.get());
  ibv_wr_start(sender);
  sender->wr_id = 1;
  sender->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(sender);
  ibv_wr_set_ud_addr(sender, ah.get(), to->qp_num, 0x1234567);
  ibv_wr_set_sge(sender, mr->lkey, remote(0), 1);
  ASSERT_EQ(ibv_wr_complete(sender), 0);
  for (const ibv_wc& wc : await(queue.get(), 2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(buffer[3040], 'd');
}

}  // namespace
}  // namespace conformance
