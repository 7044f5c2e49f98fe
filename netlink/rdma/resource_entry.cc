// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/resource_entry.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "netlink/rdma/request.h"

namespace uroce::netlink {

namespace {

enum QpType : uint8_t { kRc = 2, kUc = 3, kXrcInitiator = 9, kXrcTarget = 10 };  // enum ib_qp_type
constexpr uint8_t kReset = 0;                                                    // enum ib_qp_state
constexpr uint8_t kMigrated = 0;                                                 // enum ib_mig_state
constexpr uint8_t kBasicSrq = 0, kXrcSrq = 1;                                    // enum ib_srq_type
constexpr const char* kDaemonName = "uroced";

// Objects of no process are the daemon's own, as a kernel driver has some.
void put_owner(MessageBuilder& out, uint32_t pid) {
  if (pid != 0) {
    out.u32(RDMA_NLDEV_ATTR_RES_PID, pid);
  } else {
    out.text(RDMA_NLDEV_ATTR_RES_KERN_NAME, kDaemonName);
  }
}

void put_range(MessageBuilder& out, uint32_t first, uint32_t last) {
  const auto entry = out.open_table(RDMA_NLDEV_ATTR_RES_QP_ENTRY);
  if (first == last) {
    out.u32(RDMA_NLDEV_ATTR_RES_LQPN, first);
  } else {
    out.u32(RDMA_NLDEV_ATTR_MIN_RANGE, first);
    out.u32(RDMA_NLDEV_ATTR_MAX_RANGE, last);
  }
  out.close_table(entry);
}

// As many ranges as fit, so that an SRQ with thousands of scattered QPs still shows; room stays for what
// follows.
void put_qp_ranges(MessageBuilder& out, std::vector<uint32_t> qps) {
  constexpr int kMostRanges = 100;
  std::sort(qps.begin(), qps.end());
  const auto table = out.open_table(RDMA_NLDEV_ATTR_RES_QP);
  int ranges = 0;
  for (size_t first = 0; first < qps.size() && ranges < kMostRanges; ++ranges) {
    size_t last = first;
    while (last + 1 < qps.size() && qps[last + 1] <= qps[last] + 1) last++;
    put_range(out, qps[first], qps[last]);
    first = last + 1;
  }
  out.close_table(table);
}

void put_address(MessageBuilder& out, rdma_nldev_attr type, const std::vector<uint8_t>& address) {
  if (address.empty()) return;
  std::array<uint8_t, sizeof(sockaddr_storage)> padded{};
  std::copy_n(address.begin(), std::min(address.size(), padded.size()), padded.begin());
  out.bytes(static_cast<uint16_t>(type), padded);
}

}  // namespace

void put_entry(MessageBuilder& out, const PdView& pd, bool) {
  out.u64(RDMA_NLDEV_ATTR_RES_USECNT, pd.users);
  out.u32(RDMA_NLDEV_ATTR_RES_PDN, pd.number);
  out.u32(RDMA_NLDEV_ATTR_RES_CTXN, pd.context);
  put_owner(out, pd.pid);
}

void put_entry(MessageBuilder& out, const ContextView& context, bool) {
  out.u32(RDMA_NLDEV_ATTR_RES_CTXN, context.number);
  put_owner(out, context.pid);
}

void put_entry(MessageBuilder& out, const CqView& cq, bool) {
  out.u32(RDMA_NLDEV_ATTR_RES_CQE, cq.entries);
  out.u64(RDMA_NLDEV_ATTR_RES_USECNT, cq.users);
  out.u8(RDMA_NLDEV_ATTR_DEV_DIM, 0);
  out.u32(RDMA_NLDEV_ATTR_RES_CQN, cq.number);
  out.u32(RDMA_NLDEV_ATTR_RES_CTXN, cq.context);
  put_owner(out, cq.pid);
}

void put_entry(MessageBuilder& out, const MrView& mr, bool administrator) {
  if (administrator) {
    out.u32(RDMA_NLDEV_ATTR_RES_RKEY, mr.key);
    out.u32(RDMA_NLDEV_ATTR_RES_LKEY, mr.key);
    out.u64(RDMA_NLDEV_ATTR_RES_IOVA, mr.iova);
  }
  out.u64(RDMA_NLDEV_ATTR_RES_MRLEN, mr.length);
  out.u32(RDMA_NLDEV_ATTR_RES_MRN, mr.number);
  out.u32(RDMA_NLDEV_ATTR_RES_PDN, mr.pd);
  put_owner(out, mr.pid);
}

void put_entry(MessageBuilder& out, const SrqView& srq, bool) {
  out.u32(RDMA_NLDEV_ATTR_RES_SRQN, srq.number);
  out.u8(RDMA_NLDEV_ATTR_RES_TYPE, srq.xrc ? kXrcSrq : kBasicSrq);
  out.u32(RDMA_NLDEV_ATTR_RES_PDN, srq.pd);
  if (srq.has_cq) out.u32(RDMA_NLDEV_ATTR_RES_CQN, srq.cq);
  put_qp_ranges(out, srq.qps);
  put_owner(out, srq.pid);
}

void put_entry(MessageBuilder& out, const QpView& qp, bool) {
  const bool has_peer = qp.type == kRc || qp.type == kUc;
  if (is_on_port(qp)) out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
  out.u32(RDMA_NLDEV_ATTR_RES_LQPN, qp.number);
  if (qp.pid != 0) out.u32(RDMA_NLDEV_ATTR_RES_PDN, qp.pd);
  put_owner(out, qp.pid);
  if (has_peer && qp.connected) {
    out.u32(RDMA_NLDEV_ATTR_RES_RQPN, qp.remote_number);
    out.u32(RDMA_NLDEV_ATTR_RES_RQ_PSN, qp.rq_psn);
  }
  out.u32(RDMA_NLDEV_ATTR_RES_SQ_PSN, qp.sq_psn);
  if (has_peer || qp.type == kXrcInitiator || qp.type == kXrcTarget) {
    out.u8(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, kMigrated);
  }
  out.u8(RDMA_NLDEV_ATTR_RES_TYPE, qp.type);
  out.u8(RDMA_NLDEV_ATTR_RES_STATE, qp.state);
}

void put_entry(MessageBuilder& out, const CmIdView& id, bool) {
  out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
  if (id.local_qpn != 0) {
    out.u32(RDMA_NLDEV_ATTR_RES_LQPN, id.local_qpn);
    out.u8(RDMA_NLDEV_ATTR_RES_TYPE, id.qp_type);
  }
  out.u32(RDMA_NLDEV_ATTR_RES_PS, id.port_space);
  out.u8(RDMA_NLDEV_ATTR_RES_STATE, id.state);
  put_address(out, RDMA_NLDEV_ATTR_RES_SRC_ADDR, id.source);
  put_address(out, RDMA_NLDEV_ATTR_RES_DST_ADDR, id.destination);
  out.u32(RDMA_NLDEV_ATTR_RES_CM_IDN, id.number);
  put_owner(out, id.pid);
}

bool is_on_port(const QpView& qp) {
  return qp.state != kReset;
}

}  // namespace uroce::netlink
