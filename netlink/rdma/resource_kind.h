// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The kinds of resources: their attributes, and where the model has them.
#pragma once

#include "netlink/rdma/request.h"
#include "netlink/rdma/resource_entry.h"

namespace uroce::netlink {

template <typename View>
struct ResourceKind {
  rdma_nldev_attr table, entry, id;
  std::vector<View> (RdmaModel::*list)(uint32_t device_index) const;
  static constexpr bool has_port = requires(const View& view) { is_on_port(view); };
};

inline constexpr ResourceKind<QpView> kQps = {RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
                                              RDMA_NLDEV_ATTR_RES_LQPN, &RdmaModel::qps};
inline constexpr ResourceKind<CmIdView> kCmIds = {RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
                                                  RDMA_NLDEV_ATTR_RES_CM_IDN, &RdmaModel::cm_ids};
inline constexpr ResourceKind<CqView> kCqs = {RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
                                              RDMA_NLDEV_ATTR_RES_CQN, &RdmaModel::cqs};
inline constexpr ResourceKind<MrView> kMrs = {RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY,
                                              RDMA_NLDEV_ATTR_RES_MRN, &RdmaModel::mrs};
inline constexpr ResourceKind<PdView> kPds = {RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY,
                                              RDMA_NLDEV_ATTR_RES_PDN, &RdmaModel::pds};
inline constexpr ResourceKind<ContextView> kContexts = {
    RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY, RDMA_NLDEV_ATTR_RES_CTXN, &RdmaModel::contexts};
inline constexpr ResourceKind<SrqView> kSrqs = {RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
                                                RDMA_NLDEV_ATTR_RES_SRQN, &RdmaModel::srqs};

// Calls `with` the kind that a RES_*_GET command is about.
template <typename With>
auto with_kind(uint16_t operation, const With& with) {
  switch (operation) {
    case RDMA_NLDEV_CMD_RES_QP_GET: return with(kQps);
    case RDMA_NLDEV_CMD_RES_CM_ID_GET: return with(kCmIds);
    case RDMA_NLDEV_CMD_RES_CQ_GET: return with(kCqs);
    case RDMA_NLDEV_CMD_RES_PD_GET: return with(kPds);
    case RDMA_NLDEV_CMD_RES_CTX_GET: return with(kContexts);
    case RDMA_NLDEV_CMD_RES_SRQ_GET: return with(kSrqs);
    default: return with(kMrs);
  }
}

}  // namespace uroce::netlink
