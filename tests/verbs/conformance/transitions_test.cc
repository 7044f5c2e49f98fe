// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_modify_qp(3): which states follow which, with which attributes.
#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Transitions : public Pair, public testing::WithParamInterface<ibv_qp_type> {
 protected:
  // A queue pair in `state`, or nothing when it cannot be brought there by the program (SQE).
  Qp in_state(ibv_qp_state state) {
    Qp made = qp(GetParam(), queue.get());
    const ibv_qp_state upward = state == IBV_QPS_SQD ? IBV_QPS_RTS : state;
    if (state != IBV_QPS_RESET && state != IBV_QPS_ERR) bring_up(made.get(), left->qp_num, upward);
    if (state == IBV_QPS_SQD || state == IBV_QPS_ERR) {
      EXPECT_EQ(modify(made.get(), state, IBV_QP_STATE), 0);
    }
    return made;
  }
  int modify(ibv_qp* made, ibv_qp_state to, int mask) {
    ibv_qp_attr a = attributes_to(to, gid, gid_index, left->qp_num);
    a.cur_qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(made, &a, mask);
  }
  ibv_qp_state state_of(ibv_qp* made) {
    ibv_qp_attr a{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(made, &a, IBV_QP_STATE, &init), 0);
    return a.qp_state;
  }
  // The attributes that a transition needs; negative: there is no such transition.
  int needed(ibv_qp_state from, ibv_qp_state to) const {
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return IBV_QP_STATE;
    if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) return mask_to(to, GetParam());
    if (from == IBV_QPS_INIT && to == IBV_QPS_INIT) return IBV_QP_STATE;
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) return mask_to(to, GetParam());
    if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) return mask_to(to, GetParam());
    if (from == IBV_QPS_RTS && (to == IBV_QPS_RTS || to == IBV_QPS_SQD)) return IBV_QP_STATE;
    if (from == IBV_QPS_SQD && (to == IBV_QPS_RTS || to == IBV_QPS_SQD)) return IBV_QP_STATE;
    return -1;
  }
};

constexpr ibv_qp_state kReachable[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                       IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
constexpr ibv_qp_state kAll[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                 IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

TEST_P(Transitions, each_state_is_followed_by_the_right_ones_only) {
  for (ibv_qp_state from : kReachable) {
    for (ibv_qp_state to : kAll) {
      const int mask = needed(from, to);
      Qp made = in_state(from);
      const int error = modify(made.get(), to, mask >= 0 ? mask : IBV_QP_STATE);
      EXPECT_EQ(error, mask >= 0 ? 0 : EINVAL) << "from " << from << " to " << to;
      EXPECT_EQ(state_of(made.get()), mask >= 0 ? to : from) << "from " << from << " to " << to;
    }
  }
}

TEST_P(Transitions, each_needed_attribute_is_needed) {
  for (ibv_qp_state from : kReachable) {
    for (ibv_qp_state to : kAll) {
      const int mask = needed(from, to);
      for (int bit = 1; mask > 0 && bit <= mask; bit <<= 1) {
        if ((mask & bit) == 0 || bit == IBV_QP_STATE) continue;
        Qp made = in_state(from);
        EXPECT_EQ(modify(made.get(), to, mask & ~bit), EINVAL)
            << "from " << from << " to " << to << " without " << bit;
        EXPECT_EQ(state_of(made.get()), from);
      }
    }
  }
}

TEST_P(Transitions, an_attribute_of_another_transition_is_refused) {
  // The start PSN belongs to INIT -> RTR and RTR -> RTS alone, the address to INIT -> RTR and SQD -> SQD.
  Qp made = in_state(IBV_QPS_RESET);
  EXPECT_EQ(modify(made.get(), IBV_QPS_INIT, mask_to(IBV_QPS_INIT, GetParam()) | IBV_QP_SQ_PSN), EINVAL);
  made = in_state(IBV_QPS_RTR);
  EXPECT_EQ(modify(made.get(), IBV_QPS_RTS, mask_to(IBV_QPS_RTS, GetParam()) | IBV_QP_AV), EINVAL);
  made = in_state(IBV_QPS_RTS);
  EXPECT_EQ(modify(made.get(), IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_RQ_PSN), EINVAL);
}

TEST_P(Transitions, a_wrong_current_state_is_refused) {
  Qp made = in_state(IBV_QPS_SQD);
  EXPECT_EQ(modify(made.get(), IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  made = in_state(IBV_QPS_RTS);
  EXPECT_EQ(modify(made.get(), IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, Transitions, testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD));

class Attributes : public Pair {};

TEST_F(Attributes, query_returns_what_was_set) {
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(left.get(), &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_CAP, &init), 0);
  const ibv_qp_attr set = attributes_to(IBV_QPS_RTS, gid, gid_index, right->qp_num);
  EXPECT_EQ(a.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(a.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(a.path_mtu, set.path_mtu);
  EXPECT_EQ(a.dest_qp_num, right->qp_num);
  EXPECT_EQ(a.rq_psn, set.rq_psn);
  EXPECT_EQ(a.sq_psn, set.sq_psn);
  EXPECT_EQ(a.qp_access_flags, set.qp_access_flags);
  EXPECT_EQ(a.timeout, set.timeout);
  EXPECT_EQ(a.retry_cnt, set.retry_cnt);
  EXPECT_EQ(a.rnr_retry, set.rnr_retry);
  EXPECT_EQ(a.min_rnr_timer, set.min_rnr_timer);
  EXPECT_EQ(a.max_rd_atomic, set.max_rd_atomic);
  EXPECT_EQ(a.max_dest_rd_atomic, set.max_dest_rd_atomic);
  EXPECT_EQ(a.port_num, 1);
  EXPECT_EQ(std::memcmp(&a.ah_attr.grh.dgid, &gid, sizeof(gid)), 0);
  EXPECT_EQ(a.ah_attr.grh.sgid_index, gid_index);
  EXPECT_GE(a.cap.max_send_wr, 16u);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.send_cq, queue.get());
}

TEST_F(Attributes, values_out_of_range_are_refused) {
  Qp made = qp(IBV_QPT_RC, queue.get());
  bring_up(made.get(), right->qp_num, IBV_QPS_INIT);
  const int mask = mask_to(IBV_QPS_RTR, IBV_QPT_RC);
  const auto refused = [&](auto change) {
    ibv_qp_attr a = attributes_to(IBV_QPS_RTR, gid, gid_index, right->qp_num);
    change(a);
    return ibv_modify_qp(made.get(), &a, mask) == EINVAL;
  };
  EXPECT_TRUE(refused([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(0); }));
  EXPECT_TRUE(refused([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }));
  EXPECT_TRUE(refused([](ibv_qp_attr& a) { a.min_rnr_timer = 32; }));
  EXPECT_TRUE(refused([](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }));
  EXPECT_TRUE(refused([](ibv_qp_attr& a) { a.ah_attr.grh.dgid = {}; }));
  EXPECT_TRUE(refused([](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 100; }));
  EXPECT_TRUE(refused([](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }));
  EXPECT_TRUE(refused(
      [this](ibv_qp_attr& a) { a.max_dest_rd_atomic = static_cast<uint8_t>(limits.max_qp_rd_atom + 1); }));
  ibv_qp_attr good = attributes_to(IBV_QPS_RTR, gid, gid_index, right->qp_num);
  EXPECT_EQ(ibv_modify_qp(made.get(), &good, mask), 0);
}

}  // namespace
}  // namespace conformance
