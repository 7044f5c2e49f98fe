// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The sending half of a connected queue pair (RC, XRC initiator, UC): from the send queue to packets, from
// answers to completions.
#pragma once

#include "provider/engine/core.h"

namespace uroce::engine::requester {

// ---- control ------------------------------------------------------------------------------------
// To RTS: the first PSN is set.
void start(Qp& qp);
// No longer sends: window and timers are given back.
void stop(Core& core, Qp& qp);
// SQD: raises SQ_DRAINED once nothing is under way.
void check_drained(Core& core, Qp& qp);

// ---- out ----------------------------------------------------------------------------------------
// Writes packets until nothing may leave, the batch is full, or `quantum` bytes went.
Turn transmit(Core& core, Qp& qp, Time now, TxBatch& batch, int64_t& quantum);

// ---- in -----------------------------------------------------------------------------------------
void on_response(Core& core, Qp& qp, Time now, const wire::Packet& packet);
void on_congestion_notification(Core& core, Qp& qp, Time now);
void on_timer(Core& core, Qp& qp, Time now);

// ---- between the files of the requester ---------------------------------------------------------
bool is_read_like(WrOpcode opcode);  // answered by a response of its own and counted against max_rd_atomic
// All before `psn` is acknowledged, as far as no READ or atomic stands open before it. Returns false when one
// does.
bool acknowledge_before(Core& core, Qp& qp, Time now, wire::Psn psn);
void set_una(Core& core, Qp& qp, Time now, wire::Psn una);
void retire(Core& core, Qp& qp, Time now);
// Back to the oldest packet without an answer, once per loss.
void restart(Core& core, Qp& qp, Time now);
void go_back(Core& core, Qp& qp);
// The opposite: what was sent is still on its way. Sending goes on behind it, if there is something to send;
// a hole would be reported then.
void go_on_in_front(Core& core, Qp& qp);
void update_charge(Core& core, Qp& qp);
// The request at `index` failed here; reported when those before it are done.
void fail_request(Core& core, Qp& qp, Time now, uint32_t index, WcStatus status, VendorError reason);
// The oldest request failed; ERR.
void fail_head(Core& core, Qp& qp, Time now, WcStatus status, VendorError reason, StateReason why);
void arm_retransmission(Core& core, Qp& qp, Time now);

}  // namespace uroce::engine::requester
