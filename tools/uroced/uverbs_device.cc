// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_call.h"
#include "tools/uroced/uverbs_limits.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kAtomicGlob = 2;          // IB_ATOMIC_GLOB: the CPU's own atomics
constexpr uint32_t kOdpAll = (1u << 6) - 1;  // SEND RECV WRITE READ ATOMIC SRQ_RECV
constexpr uint64_t kOdpSupport = 1 | 2;      // on demand, implicit too

ib_uverbs_query_device_resp describe(const DeviceFacts& facts) {
  ib_uverbs_query_device_resp to{};
  to.node_guid = to.sys_image_guid = facts.node_guid_be;
  to.max_mr_size = ~uint64_t{0};
  to.page_size_cap = 0xfffff000u;
  to.vendor_id = UROCE_VENDOR_ID;
  to.vendor_part_id = UROCE_VENDOR_PART_ID;
  to.hw_ver = 1;
  to.max_qp = UROCE_MAX_QP_PER_CONTEXT;
  to.max_qp_wr = UROCE_MAX_QP_WR;
  to.device_cap_flags = kDeviceCapabilities;
  to.max_sge = to.max_sge_rd = UROCE_MAX_SGE;
  to.max_cq = kMostCqs;
  to.max_cqe = UROCE_MAX_CQE;
  to.max_mr = kMostMrs;
  to.max_pd = kMostPds;
  to.max_qp_rd_atom = to.max_qp_init_rd_atom = UROCE_MAX_RD_ATOMIC;
  to.max_res_rd_atom = UROCE_MAX_RD_ATOMIC * UROCE_MAX_QP_PER_CONTEXT;
  to.atomic_cap = kAtomicGlob;
  to.max_mw = kMostMws;
  to.max_mcast_grp = kMostMcastGroups;
  to.max_mcast_qp_attach = kMostQpsPerGroup;
  to.max_total_mcast_qp_attach = kMostMcastGroups * kMostQpsPerGroup;
  to.max_ah = 1u << 20;
  to.max_srq = kMostSrqs;
  to.max_srq_wr = UROCE_MAX_SRQ_WR;
  to.max_srq_sge = UROCE_MAX_SGE;
  to.max_pkeys = 1;
  to.local_ca_ack_delay = 15;
  to.phys_port_cnt = 1;
  return to;
}

}  // namespace

int query_device(UverbsCall& call) {
  call.reply.core(describe(call.host.facts(call.device)));
  return 0;
}

int query_device_extended(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_ex_query_device>();
  if (request.comp_mask != 0 || request.reserved != 0 || !call.rest_is_zero<ib_uverbs_ex_query_device>())
    return EINVAL;
  ib_uverbs_ex_query_device_resp response{};
  response.base = describe(call.host.facts(call.device));
  response.response_length = static_cast<uint32_t>(
      call.command.core_out < sizeof response ? call.command.core_out : sizeof response);
  response.odp_caps.general_caps = kOdpSupport;
  response.odp_caps.per_transport_caps = {kOdpAll, kOdpAll, kOdpAll};
  response.xrc_odp_caps = kOdpAll;
  response.timestamp_mask = ~uint64_t{0};
  response.hca_core_clock = 1'000'000;  // kHz: time stamps are nanoseconds
  response.device_cap_flags_ex = kDeviceCapabilities;
  call.reply.core(response);
  return 0;
}

int query_port(UverbsCall& call) {
  if (call.request<ib_uverbs_query_port>().port_num != 1) return EINVAL;
  const DeviceFacts facts = call.host.facts(call.device);
  ib_uverbs_query_port_resp to{};
  to.port_cap_flags = 1u << 16;  // CM supported
  to.max_msg_sz = UROCE_MAX_MSG_SIZE;
  to.gid_tbl_len = UROCE_GID_TABLE_LEN;
  to.pkey_tbl_len = 1;
  to.state = facts.up ? 4 : 1;
  to.max_mtu = 5;
  to.active_mtu = facts.mtu != 0 ? facts.mtu : 1;
  to.max_vl_num = 1;
  to.active_width = facts.rate.width;
  to.active_speed = facts.rate.speed;
  to.phys_state = facts.up ? 5 : 3;
  to.link_layer = 2;  // Ethernet
  to.flags = 1;       // a GRH is required
  call.reply.core(to);
  return 0;
}

}  // namespace uroce::daemon
