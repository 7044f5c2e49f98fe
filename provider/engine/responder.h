// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The receiving half of a connected queue pair: from request packets to memory, receives and answers.
#pragma once

#include "provider/engine/core.h"

namespace uroce::engine::responder {

// ---- control ------------------------------------------------------------------------------------
// To RTR: expected PSN and resources. False: out of memory.
bool start(Qp& qp, uint8_t max_dest_rd_atomic);
void stop(Core& core, Qp& qp);

// ---- in -----------------------------------------------------------------------------------------
void on_request(Core& core, Qp& qp, Time now, const wire::Packet& packet);     // RC, XRC target
void on_unreliable(Core& core, Qp& qp, Time now, const wire::Packet& packet);  // UC
void on_congestion_experienced(Core& core, Qp& qp, Time now);
void on_timer(Core& core, Qp& qp, Time now);

// ---- out ----------------------------------------------------------------------------------------
// READ and atomic responses.
Turn transmit(Core& core, Qp& qp, Time now, TxBatch& batch, int64_t& quantum);
// What stands in `due`, and a congestion notification. False: the batch is full.
bool transmit_answer(Core& core, Qp& qp, Time now, TxBatch& batch);

// UC: a packet at most this far behind is late, not the first of a new sequence.
inline constexpr uint32_t kUnreliableHistory = 4096;

// ---- between the files of the responder ---------------------------------------------------------
// How a request is refused: the NAK (IBA 9.7.5.2.8) and what happens here.
void refuse(Core& core, Qp& qp, Time now, wire::NakCode code, wire::Psn psn);
void owe_acknowledge(Core& core, Qp& qp, Time now, bool at_once);
// `outcome` of a message's data.
enum class Outcome : uint8_t { ok, not_ready, invalid_request, access, operation };
Outcome begin_send(Core& core, Qp& qp, const wire::Packet& packet);
Outcome begin_write(Core& core, Qp& qp, const wire::Packet& packet);
Outcome take_payload(Core& core, Qp& qp, Time now, const wire::Packet& packet);
Outcome finish_message(Core& core, Qp& qp, Time now, const wire::Packet& packet);
// The SRQ that the message's receive comes from, nullptr: the QP's own. False: an XRC message names none that
// it may use.
bool find_receive_queue(Core& core, const Qp& qp, const wire::Packet& packet, SharedReceiveQueue::Impl*& srq);
bool fits_opcode_sequence(const ResponderState& resp, const wire::OpcodeInfo& info);
bool fits_length(const Qp& qp, const wire::OpcodeInfo& info, size_t payload);
// READ, atomic, FLUSH, atomic write at the expected PSN.
Outcome accept_resource(Core& core, Qp& qp, const wire::Packet& packet);
// The same again (IBA 9.7.5.1.5): answered from what is remembered, else dropped.
void on_duplicate_resource(Core& core, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::engine::responder
