// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What a QP must be set to for the connection of an identifier (IBA 12.9.7).
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <cstring>

#include "tools/uroced/cm/rdma_cm.h"

namespace uroce::cm {

namespace {

constexpr uint8_t kPort = 1;

// Which states of a QP this end of a connection knows enough for.
bool knows_enough(State state, uint32_t qp_state) {
  switch (state) {
    case State::req_sent:
    case State::mra_received: return qp_state == IBV_QPS_INIT;  // nothing of the peer yet
    case State::req_received:
    case State::rep_sent:
    case State::rep_received:
    case State::established: return true;
    default: return false;
  }
}

}  // namespace

void RdmaCm::fill_address(const CmId& id, const wire::Gid& destination, ib_uverbs_ah_attr& out) const {
  std::memcpy(out.grh.dgid, destination.raw.data(), sizeof out.grh.dgid);
  out.grh.sgid_index = id.port->gid_index;
  out.grh.hop_limit = id.route.path.hop_limit;
  out.grh.traffic_class = id.routed ? id.route.path.traffic_class : id.tos;
  out.is_global = 1;
  out.port_num = kPort;
}

int RdmaCm::init_qp_attributes(uint32_t number, uint32_t qp_state, ib_uverbs_qp_attr& out) const {
  const CmId* id = find(number);
  if (id == nullptr) return ENOENT;
  if (!id->port || qp_state > IBV_QPS_ERR) return EINVAL;
  out.qp_state = qp_state;
  out.pkey_index = 0;
  out.port_num = kPort;
  const bool connected = id->endpoint != 0 && !id->is_ud();
  if (!connected) {
    out.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (id->is_ud()) {
      out.qkey = id->qkey != 0 ? id->qkey : kUdpQkey;
      out.qp_attr_mask |= IBV_QP_QKEY;
    } else {
      out.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
    }
    return 0;
  }
  const auto state = ib_.state(id->endpoint);
  if (!state || !knows_enough(*state, qp_state)) return EINVAL;
  const bool initiates = id->qp_type == QpType::rc || id->qp_type == QpType::xrc_ini;
  const bool responds = id->qp_type == QpType::rc || id->qp_type == QpType::xrc_tgt;
  switch (qp_state) {
    case IBV_QPS_INIT:
      out.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
      out.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      if (id->responder_resources != 0)
        out.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      return 0;
    case IBV_QPS_RTR:
      out.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
      fill_address(*id, id->route.path.destination, out.ah_attr);
      out.path_mtu = id->path_mtu;
      out.dest_qp_num = id->remote_qpn;
      out.rq_psn = id->psn;
      if (responds) {
        out.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        out.max_dest_rd_atomic = id->responder_resources;
      }
      return 0;
    case IBV_QPS_RTS:
      out.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
      out.sq_psn = id->remote_psn;
      if (initiates) {
        out.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        out.retry_cnt = id->retry_count;
        out.rnr_retry = id->rnr_retry_count;
        out.max_rd_atomic = id->initiator_depth;
      }
      if (initiates || responds) {
        out.qp_attr_mask |= IBV_QP_TIMEOUT;
        out.timeout = id->ack_timeout ? *id->ack_timeout : id->local_ack_timeout;
      }
      return 0;
    default: return EINVAL;
  }
}

}  // namespace uroce::cm
