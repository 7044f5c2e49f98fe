// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// UD: single packets, a Q_Key instead of a connection, and multicast.
#pragma once

#include "provider/engine/core.h"

namespace uroce::engine::datagram {

Turn transmit(Core& core, Qp& qp, Time now, TxBatch& batch, int64_t& quantum);
void on_packet(Core& core, Qp& qp, Time now, const wire::Packet& packet, size_t packet_bytes,
               const RxMeta& meta);
// One copy for each attached queue pair.
void on_multicast(Core& core, Time now, const wire::Packet& packet, size_t packet_bytes, const RxMeta& meta);

}  // namespace uroce::engine::datagram
