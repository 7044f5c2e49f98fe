// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Every command that is served: its sizes, its handler, and what it may do when the device is gone.
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

namespace {

enum class When {
  unbound,  // before GET_CONTEXT, and only then
  alive,
  always,  // also after the device was removed: taking apart is possible (0), all else is EIO
};

struct Row {
  CommandShape shape;
  int (*handler)(UverbsCall&);
  When when;
};

#define LEGACY(NUMBER, REQUEST, RESPONSE_BYTES, HANDLER, WHEN)                                \
  Row {                                                                                       \
    {IB_USER_VERBS_CMD_##NUMBER, false, sizeof(REQUEST), RESPONSE_BYTES}, HANDLER, When::WHEN \
  }
// Extended structures grow at their end: what is needed ends with the named member.
#define END_OF(TYPE, MEMBER) (offsetof(TYPE, MEMBER) + sizeof(TYPE::MEMBER))
#define EXTENDED(NUMBER, REQUEST_BYTES, RESPONSE_BYTES, HANDLER, WHEN)                        \
  Row {                                                                                       \
    {IB_USER_VERBS_EX_CMD_##NUMBER, true, REQUEST_BYTES, RESPONSE_BYTES}, HANDLER, When::WHEN \
  }

constexpr Row kRows[] = {
    LEGACY(GET_CONTEXT, ib_uverbs_get_context, sizeof(ib_uverbs_get_context_resp), get_context, unbound),
    LEGACY(QUERY_DEVICE, ib_uverbs_query_device, sizeof(ib_uverbs_query_device_resp), query_device, alive),
    LEGACY(QUERY_PORT, ib_uverbs_query_port, sizeof(ib_uverbs_query_port_resp), query_port, alive),
    LEGACY(ALLOC_PD, ib_uverbs_alloc_pd, sizeof(ib_uverbs_alloc_pd_resp), alloc_pd, alive),
    LEGACY(DEALLOC_PD, ib_uverbs_dealloc_pd, 0, dealloc_pd, always),
    LEGACY(REG_MR, ib_uverbs_reg_mr, sizeof(ib_uverbs_reg_mr_resp), reg_mr, alive),
    LEGACY(REREG_MR, ib_uverbs_rereg_mr, sizeof(ib_uverbs_rereg_mr_resp), rereg_mr, alive),
    LEGACY(DEREG_MR, ib_uverbs_dereg_mr, 0, dereg_mr, always),
    LEGACY(ALLOC_MW, ib_uverbs_alloc_mw, sizeof(ib_uverbs_alloc_mw_resp), alloc_mw, alive),
    LEGACY(DEALLOC_MW, ib_uverbs_dealloc_mw, 0, dealloc_mw, always),
    LEGACY(CREATE_CQ, ib_uverbs_create_cq, sizeof(ib_uverbs_create_cq_resp), create_cq, alive),
    LEGACY(RESIZE_CQ, ib_uverbs_resize_cq, sizeof(ib_uverbs_resize_cq_resp), resize_cq, alive),
    LEGACY(DESTROY_CQ, ib_uverbs_destroy_cq, sizeof(ib_uverbs_destroy_cq_resp), destroy_cq, always),
    LEGACY(CREATE_QP, ib_uverbs_create_qp, sizeof(ib_uverbs_create_qp_resp), create_qp, alive),
    LEGACY(OPEN_QP, ib_uverbs_open_qp, sizeof(ib_uverbs_create_qp_resp), open_qp, alive),
    LEGACY(QUERY_QP, ib_uverbs_query_qp, sizeof(ib_uverbs_query_qp_resp), query_qp, alive),
    LEGACY(MODIFY_QP, ib_uverbs_modify_qp, 0, modify_qp, alive),
    LEGACY(DESTROY_QP, ib_uverbs_destroy_qp, sizeof(ib_uverbs_destroy_qp_resp), destroy_qp, always),
    LEGACY(ATTACH_MCAST, ib_uverbs_attach_mcast, 0, attach_mcast, alive),
    LEGACY(DETACH_MCAST, ib_uverbs_detach_mcast, 0, detach_mcast, always),
    LEGACY(CREATE_SRQ, ib_uverbs_create_srq, sizeof(ib_uverbs_create_srq_resp), create_srq, alive),
    LEGACY(CREATE_XSRQ, ib_uverbs_create_xsrq, sizeof(ib_uverbs_create_srq_resp), create_xsrq, alive),
    LEGACY(MODIFY_SRQ, ib_uverbs_modify_srq, 0, modify_srq, alive),
    LEGACY(QUERY_SRQ, ib_uverbs_query_srq, sizeof(ib_uverbs_query_srq_resp), query_srq, alive),
    LEGACY(DESTROY_SRQ, ib_uverbs_destroy_srq, sizeof(ib_uverbs_destroy_srq_resp), destroy_srq, always),
    LEGACY(OPEN_XRCD, ib_uverbs_open_xrcd, sizeof(ib_uverbs_open_xrcd_resp), open_xrcd, alive),
    LEGACY(CLOSE_XRCD, ib_uverbs_close_xrcd, 0, close_xrcd, always),
    EXTENDED(QUERY_DEVICE, END_OF(ib_uverbs_ex_query_device, reserved),
             END_OF(ib_uverbs_ex_query_device_resp, response_length), query_device_extended, alive),
    EXTENDED(CREATE_CQ, END_OF(ib_uverbs_ex_create_cq, reserved),
             END_OF(ib_uverbs_ex_create_cq_resp, response_length), create_cq_extended, alive),
    EXTENDED(CREATE_QP, END_OF(ib_uverbs_ex_create_qp, comp_mask),
             END_OF(ib_uverbs_ex_create_qp_resp, response_length), create_qp_extended, alive),
    EXTENDED(MODIFY_QP, sizeof(ib_uverbs_ex_modify_qp::base),
             END_OF(ib_uverbs_ex_modify_qp_resp, response_length), modify_qp_extended, alive),
};

constexpr size_t kRowCount = std::size(kRows);

constexpr std::array<CommandShape, kRowCount> shapes_of_rows() {
  std::array<CommandShape, kRowCount> shapes{};
  for (size_t i = 0; i < kRowCount; ++i) shapes[i] = kRows[i].shape;
  return shapes;
}
constexpr auto kShapes = shapes_of_rows();

}  // namespace

std::span<const CommandShape> uverbs_shapes() {
  return kShapes;
}

int execute_uverbs(UverbsCall& call) {
  const Row& row = kRows[call.command.shape - kShapes.data()];
  if ((call.slot == 0) != (row.when == When::unbound)) return EINVAL;
  if (call.slot != 0 && call.registry.context(call.slot).fatal != 0 && row.when != When::always) return EIO;
  return row.handler(call);
}

}  // namespace uroce::daemon
