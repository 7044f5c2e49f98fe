// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/qp_transitions.h"

#include <cerrno>

namespace uroce::engine {

namespace {

using M = QpMask;

enum TypeSet : uint8_t { kRc = 1, kUc = 2, kUd = 4, kXrcIni = 8, kXrcTgt = 16, kAll = 31 };

TypeSet set_of(QpType type) {
  switch (type) {
    case QpType::rc: return kRc;
    case QpType::uc: return kUc;
    case QpType::ud: return kUd;
    case QpType::xrc_initiator: return kXrcIni;
    case QpType::xrc_target: return kXrcTgt;
  }
  return kRc;
}

struct Transition {
  QpState from;
  QpState to;
  uint8_t types;
  uint32_t required;
  uint32_t optional;
};

constexpr uint8_t kConnected = kRc | kUc | kXrcIni | kXrcTgt;
constexpr uint8_t kAnswering = kRc | kXrcTgt;  // have a responder with READ resources
constexpr uint32_t kAddress = M::av | M::path_mtu | M::dest_qpn | M::rq_psn;
constexpr uint32_t kRetry = M::timeout | M::retry_cnt | M::rnr_retry | M::max_qp_rd_atomic;
// What means something at the other end of an XRC connection only: programs (perftest) give both ends one
// list.
constexpr uint32_t kOtherEndRtr = M::max_dest_rd_atomic | M::min_rnr_timer;
constexpr uint32_t kOtherEndRts = M::retry_cnt | M::rnr_retry | M::max_qp_rd_atomic;
// Alternate paths are not offered (no AUTO_PATH_MIG capability); the migration state alone is accepted and
// means nothing.
constexpr uint32_t kCommonRts = M::cur_state | M::access_flags | M::path_mig_state;

constexpr Transition kTransitions[] = {
    {QpState::reset, QpState::init, kUd, M::pkey_index | M::port | M::qkey, 0},
    {QpState::reset, QpState::init, kConnected, M::pkey_index | M::port | M::access_flags, 0},

    {QpState::init, QpState::init, kUd, 0, M::pkey_index | M::port | M::qkey},
    {QpState::init, QpState::init, kConnected, 0, M::pkey_index | M::port | M::access_flags},

    {QpState::init, QpState::rtr, kUd, 0, M::pkey_index | M::qkey},
    {QpState::init, QpState::rtr, kUc, kAddress, M::pkey_index | M::access_flags},
    {QpState::init, QpState::rtr, kXrcIni, kAddress, M::pkey_index | M::access_flags | kOtherEndRtr},
    {QpState::init, QpState::rtr, kAnswering, kAddress | M::max_dest_rd_atomic | M::min_rnr_timer,
     M::pkey_index | M::access_flags},

    {QpState::rtr, QpState::rts, kUd, M::sq_psn, M::cur_state | M::qkey},
    {QpState::rtr, QpState::rts, kUc, M::sq_psn, kCommonRts},
    {QpState::rtr, QpState::rts, kRc, M::sq_psn | kRetry, kCommonRts | M::min_rnr_timer},
    {QpState::rtr, QpState::rts, kXrcIni, M::sq_psn | kRetry, kCommonRts},
    {QpState::rtr, QpState::rts, kXrcTgt, M::sq_psn | M::timeout,
     kCommonRts | M::min_rnr_timer | kOtherEndRts},

    {QpState::rts, QpState::rts, kUd, 0, M::cur_state | M::qkey},
    {QpState::rts, QpState::rts, kUc | kXrcIni, 0, kCommonRts},
    {QpState::rts, QpState::rts, kAnswering, 0, kCommonRts | M::min_rnr_timer},

    {QpState::rts, QpState::sqd, kAll, 0, M::en_sqd_async_notify},

    {QpState::sqd, QpState::sqd, kUd, 0, M::pkey_index | M::qkey},
    {QpState::sqd, QpState::sqd, kUc, 0, M::av | M::pkey_index | M::access_flags | M::path_mig_state},
    {QpState::sqd, QpState::sqd, kRc, 0,
     M::port | M::av | kRetry | M::max_dest_rd_atomic | M::pkey_index | M::access_flags | M::min_rnr_timer |
         M::path_mig_state},
    {QpState::sqd, QpState::sqd, kXrcIni, 0,
     M::port | M::av | kRetry | M::pkey_index | M::access_flags | M::path_mig_state},
    {QpState::sqd, QpState::sqd, kXrcTgt, 0,
     M::port | M::av | M::timeout | M::max_dest_rd_atomic | M::pkey_index | M::access_flags |
         M::min_rnr_timer | M::path_mig_state},

    {QpState::sqd, QpState::rts, kUd, 0, M::cur_state | M::qkey},
    {QpState::sqd, QpState::rts, kUc | kXrcIni, 0, kCommonRts},
    {QpState::sqd, QpState::rts, kAnswering, 0, kCommonRts | M::min_rnr_timer},

    {QpState::sqe, QpState::rts, kUd, 0, M::cur_state | M::qkey},
    {QpState::sqe, QpState::rts, kUc, 0, M::cur_state | M::access_flags},
};

bool values_are_legal(const QpAttributes& a, uint32_t mask, const EngineConfig& config) {
  const auto has = [mask](uint32_t bit) { return (mask & bit) != 0; };
  if (has(M::pkey_index) && a.pkey_index != 0) return false;
  if (has(M::port) && a.port != 1) return false;
  if (has(M::av) && a.path == PathId{}) return false;
  if (has(M::path_mtu) && (a.path_mtu < PathMtu::mtu_256 || a.path_mtu > PathMtu::mtu_4096)) return false;
  if (has(M::timeout) && a.timeout > 31) return false;
  if (has(M::retry_cnt) && a.retry_cnt > 7) return false;
  if (has(M::rnr_retry) && a.rnr_retry > 7) return false;
  if (has(M::min_rnr_timer) && a.min_rnr_timer > 31) return false;
  if (has(M::max_qp_rd_atomic) && a.max_rd_atomic > config.max_rd_atomic) return false;
  return !has(M::max_dest_rd_atomic) || a.max_dest_rd_atomic <= config.max_rd_atomic;
}

}  // namespace

int check_modify(QpType type, QpState current, const QpAttributes& attributes, uint32_t mask,
                 const EngineConfig& config) {
  if ((mask & M::cur_state) != 0 && attributes.cur_state != current) return EINVAL;
  const QpState next = (mask & M::state) != 0 ? attributes.state : current;
  const uint32_t given = mask & ~M::state;
  // RESET and ERR can be entered from everywhere, with nothing else changed.
  if ((mask & M::state) != 0 && (next == QpState::reset || next == QpState::error)) {
    return (given & ~M::cur_state) == 0 ? 0 : EINVAL;
  }
  for (const Transition& t : kTransitions) {
    if (t.from != current || t.to != next || (t.types & set_of(type)) == 0) continue;
    if ((given & t.required) != t.required) return EINVAL;
    if ((given & ~(t.required | t.optional)) != 0) return EINVAL;
    return values_are_legal(attributes, mask, config) ? 0 : EINVAL;
  }
  return EINVAL;
}

}  // namespace uroce::engine
