// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Attributes of objects, as the control plane gives them to the engine.
#pragma once

#include <cstdint>

#include "provider/engine/path.h"
#include "provider/engine/work.h"

namespace uroce::engine {

class CompletionQueue;
class SharedReceiveQueue;

// Numbers equal enum ibv_qp_state.
enum class QpState : uint8_t { reset = 0, init = 1, rtr = 2, rts = 3, sqd = 4, sqe = 5, error = 6 };
const char* to_string(QpState state);

// Numbers equal enum ibv_mtu.
enum class PathMtu : uint8_t { mtu_256 = 1, mtu_512, mtu_1024, mtu_2048, mtu_4096 };
constexpr uint32_t bytes_of(PathMtu mtu) {
  return 128u << static_cast<uint32_t>(mtu);
}

struct QpCapabilities {
  uint32_t max_send_wr = 1;
  uint32_t max_recv_wr = 1;
  uint32_t max_send_sge = 1;
  uint32_t max_recv_sge = 1;
  uint32_t max_inline = 0;
};

struct QpConfig {
  wire::Qpn qpn;
  QpType type = QpType::rc;
  uint32_t pd = 0;
  CompletionQueue* send_cq = nullptr;  // null where the type has none (XRC target)
  CompletionQueue* recv_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;
  uint32_t xrc_domain = 0;
  bool signal_all = false;
  QpCapabilities capabilities;
  uint64_t user_handle = 0;  // handed back in events
};

// Bits equal enum ibv_qp_attr_mask.
struct QpMask {
  static constexpr uint32_t state = 1 << 0, cur_state = 1 << 1, en_sqd_async_notify = 1 << 2,
                            access_flags = 1 << 3, pkey_index = 1 << 4, port = 1 << 5, qkey = 1 << 6,
                            av = 1 << 7, path_mtu = 1 << 8, timeout = 1 << 9, retry_cnt = 1 << 10,
                            rnr_retry = 1 << 11, rq_psn = 1 << 12, max_qp_rd_atomic = 1 << 13,
                            alt_path = 1 << 14, min_rnr_timer = 1 << 15, sq_psn = 1 << 16,
                            max_dest_rd_atomic = 1 << 17, path_mig_state = 1 << 18, cap = 1 << 19,
                            dest_qpn = 1 << 20, rate_limit = 1 << 25;
};

struct QpAttributes {
  QpState state = QpState::reset;
  QpState cur_state = QpState::reset;
  bool en_sqd_async_notify = false;
  uint32_t access_flags = 0;
  uint16_t pkey_index = 0;
  uint8_t port = 1;
  uint32_t qkey = 0;
  PathId path;  // the address vector, interned by the caller, who also releases it
  PathMtu path_mtu = PathMtu::mtu_1024;
  uint8_t timeout = 0;  // 4.096 us * 2^timeout, 0: never
  uint8_t retry_cnt = 0;
  uint8_t rnr_retry = 0;  // 7: for ever
  wire::Psn rq_psn;
  wire::Psn sq_psn;
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  uint8_t min_rnr_timer = 0;  // code of IBA table 45
  wire::Qpn dest_qpn;
  // Set together with `path` (mask av). RC, UC, XRC: packets are taken from `peer` to `local` only; all zero:
  // not checked.
  wire::Gid local;
  wire::Gid peer;
};

struct MrConfig {
  uint32_t key = 0;  // lkey and rkey
  uint32_t pd = 0;
  uint64_t iova = 0;  // address the peers use
  uint64_t length = 0;
  uint64_t host_va = 0;  // where iova lies in our address space
  uint32_t access = 0;
  bool implicit = false;  // whole address space (on-demand)
  bool null = false;      // null MR: writes vanish, reads give zeros
};

struct SrqConfig {
  uint32_t srq_number = 0;
  uint32_t pd = 0;
  uint32_t max_wr = 1;
  uint32_t max_sge = 1;
  bool xrc = false;
  uint32_t xrc_domain = 0;
  CompletionQueue* cq = nullptr;  // XRC receives complete here
  uint64_t user_handle = 0;
};

}  // namespace uroce::engine
