// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Two queue pairs of one process that talk to each other through the device's own address.
#pragma once

#include "tests/verbs/conformance/device.h"

namespace conformance {

// What a mask of ibv_modify_qp needs to bring a queue pair of `type` up.
ibv_qp_attr attributes_to(ibv_qp_state state, const ibv_gid& gid, uint8_t gid_index, uint32_t peer);
int mask_to(ibv_qp_state state, ibv_qp_type type);

class Pair : public Device {
 protected:
  void SetUp() override;
  void TearDown() override;
  // Connects `a` and `b` with each other. RTS or, with `ready_only`, RTR.
  void connect(ibv_qp* a, ibv_qp* b, ibv_qp_state until = IBV_QPS_RTS);
  void bring_up(ibv_qp* qp, uint32_t peer, ibv_qp_state until = IBV_QPS_RTS);

  ibv_sge sge(uint32_t offset, uint32_t bytes) const {
    return {reinterpret_cast<uintptr_t>(buffer.data()) + offset, bytes, mr->lkey};
  }
  int post_recv(ibv_qp* qp, ibv_sge list, uint64_t wr_id = 7) {
    ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &list, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
  }
  ibv_send_wr send_wr(ibv_wr_opcode opcode, ibv_sge* list, int count = 1) const;
  int post(ibv_qp* qp, ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }

  std::vector<char> buffer = std::vector<char>(65536);
  Mr mr;
  Cq queue;
  Qp left, right;  // RC, connected
};

}  // namespace conformance
