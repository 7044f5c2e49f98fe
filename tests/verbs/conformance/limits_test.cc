// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What query_device announces is kept: at the limit it works, one beyond it is refused.
#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Limits : public Device {
 protected:
  // Errno of creating an RC queue pair with these capabilities.
  int error_of(const ibv_qp_cap& cap) {
    const Cq of_it = cq();
    ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, of_it.get());
    init.cap = cap;
    errno = 0;
    const Qp made(ibv_create_qp(pd.get(), &init));
    if (made == nullptr) return errno;
    EXPECT_GE(init.cap.max_send_wr, cap.max_send_wr);
    EXPECT_GE(init.cap.max_recv_wr, cap.max_recv_wr);
    EXPECT_GE(init.cap.max_send_sge, cap.max_send_sge);
    EXPECT_GE(init.cap.max_recv_sge, cap.max_recv_sge);
    EXPECT_GE(init.cap.max_inline_data, cap.max_inline_data);
    return 0;
  }
};

TEST_F(Limits, queue_pair) {
  const auto wr = static_cast<uint32_t>(limits.max_qp_wr), sge = static_cast<uint32_t>(limits.max_sge);
  EXPECT_EQ(error_of({wr, 1, 1, 1, 0}), 0);
  EXPECT_EQ(error_of({wr + 1, 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(error_of({1, wr, 1, 1, 0}), 0);
  EXPECT_EQ(error_of({1, wr + 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(error_of({1, 1, sge, 1, 0}), 0);
  EXPECT_EQ(error_of({1, 1, sge + 1, 1, 0}), EINVAL);
  EXPECT_EQ(error_of({1, 1, 1, sge, 0}), 0);
  EXPECT_EQ(error_of({1, 1, 1, sge + 1, 0}), EINVAL);
  EXPECT_EQ(error_of({1, 1, 1, 1, 512}), 0);
  EXPECT_EQ(error_of({1, 1, 1, 1, 1u << 20}), EINVAL);
}

// Programs (rdma_xclient) post inline what a gather list's room holds, without having asked for inline data.
TEST_F(Limits, a_request_has_the_room_of_its_gather_list_for_inline_data) {
  const Cq of_it = cq();
  ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, of_it.get());
  for (const uint32_t pieces : {1u, 4u, static_cast<uint32_t>(limits.max_sge)}) {
    init.cap = {8, 8, pieces, 1, 0};
    const Qp made(ibv_create_qp(pd.get(), &init));
    ASSERT_NE(made, nullptr);
    EXPECT_GE(init.cap.max_inline_data, pieces * sizeof(ibv_sge));
    ibv_qp_attr attributes{};
    ibv_qp_init_attr told{};
    ASSERT_EQ(ibv_query_qp(made.get(), &attributes, IBV_QP_CAP, &told), 0);
    EXPECT_EQ(told.cap.max_inline_data, init.cap.max_inline_data);
  }
}

TEST_F(Limits, receive_capabilities_beside_a_shared_queue_are_ignored) {
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  const Srq srq(ibv_create_srq(pd.get(), &srq_init));
  const Cq of_it = cq();
  ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, of_it.get());
  init.srq = srq.get();
  init.cap.max_recv_wr = 1u << 30;
  init.cap.max_recv_sge = 1u << 30;
  const Qp made(ibv_create_qp(pd.get(), &init));
  EXPECT_NE(made, nullptr);
  EXPECT_EQ(ibv_destroy_srq(srq.get()), EBUSY);
}

TEST_F(Limits, shared_receive_queue) {
  const auto error_of_srq = [this](uint32_t wr, uint32_t sge) {
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = wr, .max_sge = sge, .srq_limit = 0};
    errno = 0;
    const Srq made(ibv_create_srq(pd.get(), &init));
    return made != nullptr ? 0 : errno;
  };
  EXPECT_EQ(error_of_srq(static_cast<uint32_t>(limits.max_srq_wr), 1), 0);
  EXPECT_EQ(error_of_srq(static_cast<uint32_t>(limits.max_srq_wr) + 1, 1), EINVAL);
  EXPECT_EQ(error_of_srq(1, static_cast<uint32_t>(limits.max_srq_sge)), 0);
  EXPECT_EQ(error_of_srq(1, static_cast<uint32_t>(limits.max_srq_sge) + 1), EINVAL);
  EXPECT_EQ(error_of_srq(0, 1), EINVAL);
}

TEST_F(Limits, a_shared_queue_is_full_at_its_size) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 5, .max_sge = 2, .srq_limit = 0};
  const Srq srq(ibv_create_srq(pd.get(), &init));
  ibv_srq_attr real{};
  ASSERT_EQ(ibv_query_srq(srq.get(), &real), 0);
  EXPECT_GE(real.max_wr, 5u);
  ibv_recv_wr wr{}, *bad = nullptr;
  for (uint32_t i = 0; i < real.max_wr; ++i) ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr);
  ibv_sge three[3] = {};
  wr.sg_list = three;
  wr.num_sge = static_cast<int>(real.max_sge) + 1;
  EXPECT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), EINVAL);
  ibv_srq_attr limit{};
  limit.srq_limit = real.max_wr + 1;
  EXPECT_EQ(ibv_modify_srq(srq.get(), &limit, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(limits.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
  EXPECT_EQ(ibv_modify_srq(srq.get(), &real, IBV_SRQ_MAX_WR), EOPNOTSUPP);
}

TEST_F(Limits, parts_that_are_missing_are_refused) {
  const Cq of_it = cq();
  const auto refused = [&](auto change) {
    ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, of_it.get());
    change(init);
    errno = 0;
    return ibv_create_qp(pd.get(), &init) == nullptr && errno == EINVAL;
  };
  EXPECT_TRUE(refused([](ibv_qp_init_attr& a) { a.send_cq = nullptr; }));
  EXPECT_TRUE(refused([](ibv_qp_init_attr& a) { a.recv_cq = nullptr; }));
}

TEST_F(Limits, programs_may_know_a_shorter_or_a_longer_device_structure) {
  struct Longer {
    ibv_device_attr_ex known;
    char more[64];
  } longer;
  std::memset(static_cast<void*>(&longer), 0x55, sizeof(longer));
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &longer.known), 0);
  EXPECT_EQ(longer.more[0], 0x55);
  EXPECT_EQ(longer.known.phys_port_cnt_ex, 1u);
  EXPECT_EQ(longer.known.orig_attr.max_qp, limits.max_qp);
  EXPECT_EQ(longer.known.device_cap_flags_ex & 0xffffffffu, limits.device_cap_flags);
  ibv_query_device_ex_input input{.comp_mask = 1};
  EXPECT_NE(ibv_query_device_ex(context, &input, &longer.known), 0);
}

TEST_F(Limits, as_many_queue_pairs_and_domains_as_announced) {
  const Cq of_all = cq();
  ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, of_all.get());
  init.cap = {1, 1, 1, 1, 0};
  std::vector<Qp> queue_pairs;
  for (int i = 0; i < limits.max_qp; ++i) {
    queue_pairs.emplace_back(ibv_create_qp(pd.get(), &init));
    ASSERT_NE(queue_pairs.back(), nullptr) << i << " of " << limits.max_qp << ": errno " << errno;
  }
  EXPECT_EQ(ibv_create_qp(pd.get(), &init), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  queue_pairs.pop_back();
  queue_pairs.emplace_back(ibv_create_qp(pd.get(), &init));
  EXPECT_NE(queue_pairs.back(), nullptr) << "one has gone";
  std::vector<Pd> domains;
  for (int i = 1; i < limits.max_pd; ++i) {  // the fixture has one
    domains.emplace_back(ibv_alloc_pd(context));
    ASSERT_NE(domains.back(), nullptr) << i << " of " << limits.max_pd << ": errno " << errno;
  }
  EXPECT_EQ(ibv_alloc_pd(context), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(Limits, what_is_not_there_says_so) {
  const auto unsupported = [](const void* made) { return made == nullptr && errno == EOPNOTSUPP; };
  const Cq of_it = cq();
  ibv_qp_init_attr raw = init_attributes(IBV_QPT_RAW_PACKET, of_it.get());
  EXPECT_TRUE(unsupported(ibv_create_qp(pd.get(), &raw)));
  ibv_wq_init_attr wq{};
  EXPECT_TRUE(unsupported(ibv_create_wq(context, &wq)));
  ibv_counters_init_attr counters{};
  EXPECT_TRUE(unsupported(ibv_create_counters(context, &counters)));
  ibv_srq_init_attr_ex tag_matching{};
  tag_matching.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  tag_matching.srq_type = IBV_SRQT_TM;
  tag_matching.pd = pd.get();
  tag_matching.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  EXPECT_TRUE(unsupported(ibv_create_srq_ex(context, &tag_matching)));
}

}  // namespace
}  // namespace conformance
