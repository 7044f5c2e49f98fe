// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Queue pairs. The provider's engine keeps the transition table and is asked first; here values are checked
// for range and kept for QUERY_QP and `rdma resource`.
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

namespace {

enum QpType : uint32_t { rc = 2, uc = 3, ud = 4, xrc_ini = 9, xrc_tgt = 10 };

// enum ib_qp_attr_mask
enum Mask : uint32_t {
  state = 1u << 0,
  cur_state = 1u << 1,
  access_flags = 1u << 3,
  pkey_index = 1u << 4,
  port = 1u << 5,
  qkey = 1u << 6,
  av = 1u << 7,
  path_mtu = 1u << 8,
  timeout = 1u << 9,
  retry_cnt = 1u << 10,
  rnr_retry = 1u << 11,
  rq_psn = 1u << 12,
  max_rd_atomic = 1u << 13,
  alt_path = 1u << 14,
  min_rnr_timer = 1u << 15,
  sq_psn = 1u << 16,
  max_dest_rd_atomic = 1u << 17,
  path_mig_state = 1u << 18,
  dest_qpn = 1u << 20,
  rate_limit = 1u << 25,
  legacy_bits = (1u << 21) - 1,
};

constexpr uint8_t kReset = 0, kErr = 6;

using Wanted = ib_uverbs_ex_create_qp;  // holds all that the legacy command has

Wanted from_legacy(const ib_uverbs_create_qp& from) {
  Wanted to{};
  to.user_handle = from.user_handle;
  to.pd_handle = from.pd_handle;
  to.send_cq_handle = from.send_cq_handle;
  to.recv_cq_handle = from.recv_cq_handle;
  to.srq_handle = from.srq_handle;
  to.max_send_wr = from.max_send_wr;
  to.max_recv_wr = from.max_recv_wr;
  to.max_send_sge = from.max_send_sge;
  to.max_recv_sge = from.max_recv_sge;
  to.max_inline_data = from.max_inline_data;
  to.sq_sig_all = from.sq_sig_all;
  to.qp_type = from.qp_type;
  to.is_srq = from.is_srq;
  return to;
}

bool within_limits(const Wanted& wanted) {
  return wanted.max_send_wr <= UROCE_MAX_QP_WR && wanted.max_recv_wr <= UROCE_MAX_QP_WR &&
         wanted.max_send_sge <= UROCE_MAX_SGE && wanted.max_recv_sge <= UROCE_MAX_SGE &&
         wanted.max_inline_data <= UROCE_MAX_INLINE;
}

// Which objects a QP of this type hangs on; EINVAL when one of them is not there.
int find_parts(const UverbsCall& call, const Wanted& wanted, QpBody& body) {
  const auto present = [&](ObjectKind kind, uint32_t handle) { return call.find(kind, handle) != nullptr; };
  body.type = wanted.qp_type;
  switch (wanted.qp_type) {
    case rc:
    case uc:
    case ud:
      body.recv_cq = wanted.recv_cq_handle;
      if (!present(ObjectKind::cq, body.recv_cq)) return EINVAL;
      if (wanted.is_srq != 0) {
        body.srq = wanted.srq_handle;
        if (!present(ObjectKind::srq, body.srq) || call.find(ObjectKind::srq, body.srq)->srq.xrcd != 0)
          return EINVAL;
      }
      [[fallthrough]];
    case xrc_ini:
      body.pd = wanted.pd_handle;
      body.send_cq = wanted.send_cq_handle;
      return present(ObjectKind::pd, body.pd) && present(ObjectKind::cq, body.send_cq) ? 0 : EINVAL;
    case xrc_tgt:
      body.xrcd = wanted.pd_handle;  // the field carries the domain's handle here
      return present(ObjectKind::xrcd, body.xrcd) ? 0 : EINVAL;
    default: return EOPNOTSUPP;
  }
}

int create(UverbsCall& call, const Wanted& wanted, ib_uverbs_create_qp_resp& response) {
  if (!within_limits(wanted)) return EINVAL;
  QpBody body{};
  if (const int error = find_parts(call, wanted, body); error != 0) return error;
  const uint32_t handle = call.create(ObjectKind::qp, wanted.user_handle);
  if (handle == 0) return errno;
  body.qpn = call.registry.take_qpn(call.slot);
  if (body.qpn == 0) return ENOMEM;
  for (const uint32_t used : {body.pd, body.send_cq, body.recv_cq, body.srq, body.xrcd})
    call.registry.add_user(used, 1);

  const bool sends = body.type != xrc_tgt;
  const bool receives = body.recv_cq != 0 && body.srq == 0;
  ib_uverbs_query_qp_resp& attributes = body.attributes;
  attributes.max_send_wr = sends ? wanted.max_send_wr : 0;
  attributes.max_send_sge = sends ? wanted.max_send_sge : 0;
  attributes.max_inline_data = sends ? wanted.max_inline_data : 0;
  attributes.max_recv_wr = receives ? wanted.max_recv_wr : 0;
  attributes.max_recv_sge = receives ? wanted.max_recv_sge : 0;
  attributes.sq_sig_all = wanted.sq_sig_all;
  attributes.path_mtu = 1;
  call.edit(handle).qp = body;

  response.qp_handle = handle;
  response.qpn = body.qpn;
  response.max_send_wr = attributes.max_send_wr;
  response.max_recv_wr = attributes.max_recv_wr;
  response.max_send_sge = attributes.max_send_sge;
  response.max_recv_sge = attributes.max_recv_sge;
  response.max_inline_data = attributes.max_inline_data;
  return 0;
}

bool in_range(const ib_uverbs_modify_qp& m) {
  const auto asks = [&](uint32_t bit) { return (m.attr_mask & bit) != 0; };
  constexpr uint32_t kNumber = 0xffffff;
  if (asks(state) && m.qp_state > kErr) return false;
  if (asks(cur_state) && m.cur_qp_state > kErr) return false;
  if (asks(port) && m.port_num != 1) return false;
  if (asks(pkey_index) && m.pkey_index != 0) return false;
  if (asks(path_mtu) && (m.path_mtu < 1 || m.path_mtu > 5)) return false;
  if (asks(timeout) && m.timeout > 31) return false;
  if (asks(min_rnr_timer) && m.min_rnr_timer > 31) return false;
  if (asks(retry_cnt) && m.retry_cnt > 7) return false;
  if (asks(rnr_retry) && m.rnr_retry > 7) return false;
  if (asks(max_rd_atomic) && m.max_rd_atomic > UROCE_MAX_RD_ATOMIC) return false;
  if (asks(max_dest_rd_atomic) && m.max_dest_rd_atomic > UROCE_MAX_RD_ATOMIC) return false;
  if (asks(dest_qpn) && m.dest_qp_num > kNumber) return false;
  if (asks(rq_psn) && m.rq_psn > kNumber) return false;
  if (asks(sq_psn) && m.sq_psn > kNumber) return false;
  // RoCE has no other way than by GIDs.
  return !asks(av) ||
         (m.dest.is_global != 0 && m.dest.port_num == 1 && m.dest.sgid_index < UROCE_GID_TABLE_LEN);
}

void store(const ib_uverbs_modify_qp& m, ib_uverbs_query_qp_resp& to) {
  const auto asks = [&](uint32_t bit) { return (m.attr_mask & bit) != 0; };
  if (asks(state) && m.qp_state == kReset) {
    // Only what CREATE_QP gave remains.
    ib_uverbs_query_qp_resp fresh{};
    fresh.max_send_wr = to.max_send_wr;
    fresh.max_recv_wr = to.max_recv_wr;
    fresh.max_send_sge = to.max_send_sge;
    fresh.max_recv_sge = to.max_recv_sge;
    fresh.max_inline_data = to.max_inline_data;
    fresh.sq_sig_all = to.sq_sig_all;
    fresh.path_mtu = 1;
    to = fresh;
    return;
  }
  if (asks(state)) to.qp_state = to.cur_qp_state = m.qp_state;
  if (asks(access_flags)) to.qp_access_flags = m.qp_access_flags;
  if (asks(pkey_index)) to.pkey_index = m.pkey_index;
  if (asks(port)) to.port_num = m.port_num;
  if (asks(qkey)) to.qkey = m.qkey;
  if (asks(av)) to.dest = m.dest;
  if (asks(path_mtu)) to.path_mtu = m.path_mtu;
  if (asks(timeout)) to.timeout = m.timeout;
  if (asks(retry_cnt)) to.retry_cnt = m.retry_cnt;
  if (asks(rnr_retry)) to.rnr_retry = m.rnr_retry;
  if (asks(rq_psn)) to.rq_psn = m.rq_psn;
  if (asks(sq_psn)) to.sq_psn = m.sq_psn;
  if (asks(max_rd_atomic)) to.max_rd_atomic = m.max_rd_atomic;
  if (asks(max_dest_rd_atomic)) to.max_dest_rd_atomic = m.max_dest_rd_atomic;
  if (asks(min_rnr_timer)) to.min_rnr_timer = m.min_rnr_timer;
  if (asks(dest_qpn)) to.dest_qp_num = m.dest_qp_num;
}

int modify(UverbsCall& call, const ib_uverbs_modify_qp& request, uint32_t known) {
  if ((request.attr_mask & ~known) != 0) return EOPNOTSUPP;
  if ((request.attr_mask & (alt_path | path_mig_state)) != 0) return EOPNOTSUPP;
  if (!in_range(request)) return EINVAL;
  const ObjectRecord* qp = call.find(ObjectKind::qp, request.qp_handle);
  if (qp == nullptr) return EINVAL;
  const uint32_t target = qp->qp.opened_of != 0 ? qp->qp.opened_of : request.qp_handle;
  store(request, call.edit(target).qp.attributes);
  return 0;
}

}  // namespace

int create_qp(UverbsCall& call) {
  ib_uverbs_create_qp_resp response{};
  const int error = create(call, from_legacy(call.request<ib_uverbs_create_qp>()), response);
  if (error == 0) call.reply.core(response);
  return error;
}

int create_qp_extended(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_ex_create_qp>();
  if ((request.comp_mask & ~static_cast<uint32_t>(IB_UVERBS_CREATE_QP_SUP_COMP_MASK)) != 0 ||
      request.reserved != 0)
    return EINVAL;
  if (request.comp_mask != 0 || request.create_flags != 0 || !call.rest_is_zero<ib_uverbs_ex_create_qp>())
    return EOPNOTSUPP;
  ib_uverbs_ex_create_qp_resp response{};
  const int error = create(call, request, response.base);
  response.response_length = sizeof response;
  if (error == 0) call.reply.core(response);
  return error;
}

// Another handle on an XRC target QP of the same domain, by its number.
int open_qp(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_open_qp>();
  if (request.qp_type != xrc_tgt) return EINVAL;
  const ObjectRecord* domain = call.find(ObjectKind::xrcd, request.pd_handle);
  if (domain == nullptr) return EINVAL;
  uint32_t target = 0;
  call.registry.for_each_object(call.slot, [&](uint32_t index, const ObjectRecord& object) {
    if (object.kind != ObjectKind::qp || object.qp.type != xrc_tgt || object.qp.opened_of != 0) return;
    const ObjectRecord& its = call.registry.object(object.qp.xrcd);
    const bool same_domain =
        object.qp.xrcd == request.pd_handle || (its.xrcd.inode != 0 && its.xrcd.inode == domain->xrcd.inode &&
                                                its.xrcd.file_device == domain->xrcd.file_device);
    if (same_domain && object.qp.qpn == request.qpn) target = index;
  });
  if (target == 0) return EINVAL;
  const uint32_t handle = call.create(ObjectKind::qp, request.user_handle);
  if (handle == 0) return errno;
  QpBody& body = call.edit(handle).qp;
  body.xrcd = request.pd_handle;
  body.type = xrc_tgt;
  body.qpn = request.qpn;
  body.opened_of = target;
  call.registry.add_user(body.xrcd, 1);
  call.registry.add_user(target, 1);
  ib_uverbs_create_qp_resp response{};
  response.qp_handle = handle;
  response.qpn = request.qpn;
  call.reply.core(response);
  return 0;
}

namespace {

// An XRC target QP lives until its last handle goes: another handle becomes the one that holds it. False: it
// has no other.
bool hand_over_target(UverbsCall& call, uint32_t handle) {
  uint32_t heir = 0;
  call.registry.for_each_object(call.slot, [&](uint32_t index, const ObjectRecord& object) {
    if (object.kind != ObjectKind::qp || object.qp.opened_of != handle) return;
    // Field by field: there may be many handles, and what changes is remembered until the end of the command.
    if (heir == 0) {
      heir = index;
      call.registry.edit(object.qp.opened_of) = 0;
      call.registry.edit(object.qp.attributes) = call.registry.object(handle).qp.attributes;
    } else {
      call.registry.edit(object.qp.opened_of) = heir;
      call.registry.add_user(heir, 1);
    }
    call.registry.add_user(handle, -1);
  });
  if (heir != 0) call.edit(handle).qp.opened_of = heir;  // so that its release leaves the number alone
  if (heir != 0) call.registry.add_user(heir, 1);
  return heir != 0;
}

}  // namespace

int query_qp(UverbsCall& call) {
  const ObjectRecord* qp = call.find(ObjectKind::qp, call.request<ib_uverbs_query_qp>().qp_handle);
  if (qp == nullptr) return EINVAL;
  if (qp->qp.opened_of != 0) qp = &call.registry.object(qp->qp.opened_of);
  call.reply.core(qp->qp.attributes);
  return 0;
}

int modify_qp(UverbsCall& call) {
  return modify(call, call.request<ib_uverbs_modify_qp>(), legacy_bits);
}

int modify_qp_extended(UverbsCall& call) {
  const auto request = call.request<ib_uverbs_ex_modify_qp>();
  if (!call.rest_is_zero<ib_uverbs_ex_modify_qp>()) return EOPNOTSUPP;
  if (const int error = modify(call, request.base, legacy_bits | rate_limit); error != 0) return error;
  call.reply.core(
      ib_uverbs_ex_modify_qp_resp{.comp_mask = 0, .response_length = sizeof(ib_uverbs_ex_modify_qp_resp)});
  return 0;
}

int destroy_qp(UverbsCall& call) {
  const uint32_t handle = call.request<ib_uverbs_destroy_qp>().qp_handle;
  const ObjectRecord* qp = call.find(ObjectKind::qp, handle);
  if (qp == nullptr) return EINVAL;
  if (qp->users != 0 && !hand_over_target(call, handle)) return EBUSY;
  release_object(call.registry, handle);
  call.reply.core(ib_uverbs_destroy_qp_resp{});
  return 0;
}

}  // namespace uroce::daemon
