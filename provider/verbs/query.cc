// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/query.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "provider/verbs/context.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/dm.h"

namespace uroce::verbs {

namespace {

// Extended capability bits that headers of later versions have.
constexpr uint64_t kCapFlushGlobal = 1ull << 38;
constexpr uint64_t kCapAtomicWrite = 1ull << 40;
// What the data path has not is not announced, whoever made the answer.
constexpr unsigned kNotOurs = IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_RESIZE_MAX_WR |
                              IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_UD_IP_CSUM;
constexpr uint32_t kOdpAll = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                             IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;

void fill_base(const ib_uverbs_query_device_resp& from, ibv_device_attr& to) {
  std::snprintf(to.fw_ver, sizeof(to.fw_ver), "%s", UROCE_VERSION);
  to.node_guid = from.node_guid;
  to.sys_image_guid = from.sys_image_guid;
  to.max_mr_size = from.max_mr_size;
  to.page_size_cap = from.page_size_cap;
  to.vendor_id = from.vendor_id;
  to.vendor_part_id = from.vendor_part_id;
  to.hw_ver = from.hw_ver;
  to.max_qp = static_cast<int>(from.max_qp);
  to.max_qp_wr = static_cast<int>(from.max_qp_wr);
  to.device_cap_flags = from.device_cap_flags & ~kNotOurs;
  to.max_sge = static_cast<int>(from.max_sge);
  to.max_sge_rd = static_cast<int>(from.max_sge_rd);
  to.max_cq = static_cast<int>(from.max_cq);
  to.max_cqe = static_cast<int>(from.max_cqe);
  to.max_mr = static_cast<int>(from.max_mr);
  to.max_pd = static_cast<int>(from.max_pd);
  to.max_qp_rd_atom = static_cast<int>(from.max_qp_rd_atom);
  to.max_res_rd_atom = static_cast<int>(from.max_res_rd_atom);
  to.max_qp_init_rd_atom = static_cast<int>(from.max_qp_init_rd_atom);
  to.atomic_cap = static_cast<ibv_atomic_cap>(from.atomic_cap);
  to.max_mw = static_cast<int>(from.max_mw);
  to.max_mcast_grp = static_cast<int>(from.max_mcast_grp);
  to.max_mcast_qp_attach = static_cast<int>(from.max_mcast_qp_attach);
  to.max_total_mcast_qp_attach = static_cast<int>(from.max_total_mcast_qp_attach);
  to.max_ah = static_cast<int>(from.max_ah);
  to.max_srq = static_cast<int>(from.max_srq);
  to.max_srq_wr = static_cast<int>(from.max_srq_wr);
  to.max_srq_sge = static_cast<int>(from.max_srq_sge);
  to.max_pkeys = from.max_pkeys;
  to.local_ca_ack_delay = from.local_ca_ack_delay;
  to.phys_port_cnt = from.phys_port_cnt;
}

void fill_extended(ibv_device_attr_ex& to) {
  to.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  to.odp_caps.per_transport_caps.rc_odp_caps = kOdpAll;
  to.odp_caps.per_transport_caps.uc_odp_caps =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
  to.odp_caps.per_transport_caps.ud_odp_caps =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  to.xrc_odp_caps = kOdpAll;
  to.completion_timestamp_mask = ~uint64_t{0};
  to.hca_core_clock = 1'000'000;  // kHz: a tick is a nanosecond
  to.device_cap_flags_ex = to.orig_attr.device_cap_flags | kCapFlushGlobal | kCapAtomicWrite;
  to.cq_mod_caps = {kMaxModeration, kMaxModeration};
  to.max_dm_size = kMaxDeviceMemory;
  to.phys_port_cnt_ex = to.orig_attr.phys_port_cnt;
}

}  // namespace

int query_device_ex(ibv_context* base, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    size_t bytes) {
  Context& context = Context::of(base);
  // Answered in a forked child too: nothing of it is the parent's.
  if (context.data().fatal()) return EIO;
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (bytes < sizeof(ibv_device_attr)) return EINVAL;
  ibv_device_attr_ex known{};
  fill_base(context.shared().device_attributes, known.orig_attr);
  fill_extended(known);
  std::memset(static_cast<void*>(out), 0, bytes);
  std::memcpy(static_cast<void*>(out), &known, std::min(bytes, sizeof(known)));
  return 0;
}

int query_port(ibv_context* base, uint8_t port, ibv_port_attr* out) {
  Context& context = Context::of(base);
  if (int error = context.unusable(); error != 0) return error;
  ib_uverbs_query_port request{};
  request.port_num = port;
  ib_uverbs_query_port_resp from{};
  if (int error = call(context.port(), IB_USER_VERBS_CMD_QUERY_PORT, request, from); error != 0) return error;
  ibv_port_attr to{};
  to.state = static_cast<ibv_port_state>(from.state);
  to.max_mtu = static_cast<ibv_mtu>(from.max_mtu);
  to.active_mtu = static_cast<ibv_mtu>(from.active_mtu);
  to.gid_tbl_len = static_cast<int>(from.gid_tbl_len);
  to.port_cap_flags = from.port_cap_flags;
  to.max_msg_sz = from.max_msg_sz;
  to.bad_pkey_cntr = from.bad_pkey_cntr;
  to.qkey_viol_cntr = from.qkey_viol_cntr;
  to.pkey_tbl_len = from.pkey_tbl_len;
  to.lid = from.lid;
  to.sm_lid = from.sm_lid;
  to.lmc = from.lmc;
  to.max_vl_num = from.max_vl_num;
  to.sm_sl = from.sm_sl;
  to.subnet_timeout = from.subnet_timeout;
  to.init_type_reply = from.init_type_reply;
  to.active_width = from.active_width;
  to.active_speed = from.active_speed;
  to.phys_state = from.phys_state;
  to.link_layer = from.link_layer;
  to.flags = from.flags;
  *out = to;
  return 0;
}

int query_rt_values(ibv_context* base, ibv_values_ex* values) {
  Context& context = Context::of(base);
  if (int error = context.refused(); error != 0) return error;
  if ((values->comp_mask & ~static_cast<uint32_t>(IBV_VALUES_MASK_RAW_CLOCK)) != 0) return EOPNOTSUPP;
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    values->raw_clock.tv_sec = 0;
    values->raw_clock.tv_nsec = context.data().now_ns();
  }
  return 0;
}

}  // namespace uroce::verbs
