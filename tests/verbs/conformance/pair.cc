// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/verbs/conformance/pair.h"

namespace conformance {

namespace {
constexpr uint32_t kPsn = 0xfffff0;  // runs over its end soon
}

ibv_qp_attr attributes_to(ibv_qp_state state, const ibv_gid& gid, uint8_t gid_index, uint32_t peer) {
  ibv_qp_attr a{};
  a.qp_state = state;
  a.port_num = 1;
  a.qkey = 0x1234567;
  a.qp_access_flags =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer;
  a.rq_psn = a.sq_psn = kPsn;
  a.max_dest_rd_atomic = a.max_rd_atomic = 4;
  a.min_rnr_timer = 1;
  a.timeout = 14;
  a.retry_cnt = 7;
  a.rnr_retry = 7;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.dgid = gid;
  a.ah_attr.grh.sgid_index = gid_index;
  a.ah_attr.grh.hop_limit = 64;
  return a;
}

int mask_to(ibv_qp_state state, ibv_qp_type type) {
  const bool ud = type == IBV_QPT_UD, rc = type == IBV_QPT_RC;
  switch (state) {
    case IBV_QPS_INIT:
      return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    case IBV_QPS_RTR:
      if (ud) return IBV_QP_STATE;
      return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    case IBV_QPS_RTS:
      return IBV_QP_STATE | IBV_QP_SQ_PSN |
             (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
    default: return IBV_QP_STATE;
  }
}

void Pair::SetUp() {
  Device::SetUp();
  if (HasFatalFailure()) return;
  mr = region(buffer);
  queue = cq(1024);  // more than any case leaves unpolled
  ASSERT_TRUE(mr && queue);
  left = qp(IBV_QPT_RC, queue.get());
  right = qp(IBV_QPT_RC, queue.get());
  ASSERT_TRUE(left && right);
  connect(left.get(), right.get());
}

void Pair::TearDown() {
  left.reset(), right.reset(), queue.reset(), mr.reset();
  Device::TearDown();
}

void Pair::bring_up(ibv_qp* qp, uint32_t peer, ibv_qp_state until) {
  for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr a = attributes_to(state, gid, gid_index, peer);
    ASSERT_EQ(ibv_modify_qp(qp, &a, mask_to(state, qp->qp_type)), 0) << "to state " << state;
    if (state == until) return;
  }
}

void Pair::connect(ibv_qp* a, ibv_qp* b, ibv_qp_state until) {
  bring_up(a, b->qp_num, until);
  bring_up(b, a->qp_num, until);
}

ibv_send_wr Pair::send_wr(ibv_wr_opcode opcode, ibv_sge* list, int count) const {
  ibv_send_wr wr{};
  wr.wr_id = 3;
  wr.sg_list = list;
  wr.num_sge = count;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  return wr;
}

}  // namespace conformance
