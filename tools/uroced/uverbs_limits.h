// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Limits of the device beyond those of kmod-shim/uapi: how many objects, per context.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstdint>

#include "tools/uroced/state.h"

namespace uroce::daemon {

constexpr uint32_t kMostPds = 32768;
constexpr uint32_t kMostMrs = 262'144;
constexpr uint32_t kMostMws = 131'072;
constexpr uint32_t kMostCqs = 65'536;
constexpr uint32_t kMostSrqs = 32'768;
constexpr uint32_t kMostMcastGroups = 8192;
constexpr uint32_t kMostQpsPerGroup = 56;
constexpr uint32_t kMostObjects = 300'000;  // of all kinds together, which is not announced

constexpr uint32_t most_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::pd: return kMostPds;
    case ObjectKind::mr: return kMostMrs;
    case ObjectKind::mw: return kMostMws;
    case ObjectKind::cq: return kMostCqs;
    case ObjectKind::srq: return kMostSrqs;
    case ObjectKind::mcast: return kMostMcastGroups * kMostQpsPerGroup;
    case ObjectKind::free:
    case ObjectKind::qp:  // its numbers are the limit
    case ObjectKind::xrcd: return kMostObjects;
  }
  return 0;
}

constexpr uint32_t kDeviceCapabilities =
    IB_UVERBS_DEVICE_BAD_PKEY_CNTR | IB_UVERBS_DEVICE_BAD_QKEY_CNTR | IB_UVERBS_DEVICE_CURR_QP_STATE_MOD |
    IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE | IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT |
    IB_UVERBS_DEVICE_SYS_IMAGE_GUID | IB_UVERBS_DEVICE_RC_RNR_NAK_GEN | IB_UVERBS_DEVICE_SRQ_RESIZE |
    IB_UVERBS_DEVICE_N_NOTIFY_CQ | IB_UVERBS_DEVICE_MEM_WINDOW | IB_UVERBS_DEVICE_XRC |
    IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS | IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B;

}  // namespace uroce::daemon
