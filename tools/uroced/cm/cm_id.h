// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One identifier (struct rdma_cm_id) as the daemon sees it.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>
#include <set>

#include "tools/uroced/cm/address.h"
#include "tools/uroced/cm/host.h"
#include "tools/uroced/cm/ib_cm.h"

namespace uroce::cm {

// Values of enum rdma_cm_state: `rdma resource show cm_id` prints them.
enum class IdState : uint8_t {
  idle = 0,
  address_query = 1,
  address_resolved = 2,
  route_query = 3,
  route_resolved = 4,
  connect = 5,
  disconnect = 6,
  address_bound = 7,
  listen = 8,
  device_removal = 9,
};

enum class QpType : uint8_t { rc = 2, uc = 3, ud = 4, xrc_ini = 9, xrc_tgt = 10 };  // enum ib_qp_type

constexpr uint32_t kUdpQkey = 0x01234567;  // RDMA_UDP_QKEY

struct CmId {
  uint32_t number = 0;
  uint16_t port_space = 0;  // RDMA_PS_*
  QpType qp_type = QpType::rc;
  IdState state = IdState::idle;
  Address source, destination;
  bool has_port = false;  // source.port is taken in the port table
  bool reuse = false;
  std::optional<bool> family_option;  // RDMA_OPTION_ID_AFONLY, if it was set
  uint8_t tos = 0;
  std::optional<uint8_t> ack_timeout;  // 4.096 us * 2^n
  std::optional<LocalPort> port;       // where it is bound to a device
  bool routed = false;
  Time give_up_at, ask_again_at;  // address_query

  Endpoint endpoint = 0;
  uint32_t qpn = 0;
  uint32_t psn = 0;   // at which the peer is to start
  uint32_t qkey = 0;  // UD
  // From the handshake, our view of it.
  Route route;
  uint32_t remote_qpn = 0, remote_psn = 0;
  uint8_t path_mtu = 0;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t retry_count = 0, rnr_retry_count = 0;
  uint8_t local_ack_timeout = 0;

  std::set<uint32_t> groups;

  bool is_ud() const { return qp_type == QpType::ud; }
  bool own_family_only() const { return family_option.value_or(source.family == AF_INET); }
};

}  // namespace uroce::cm
