// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// UC and UD are not acknowledged: nothing tells how much of what was sent the peer has read. So they leave in
// bursts that any receive buffer holds, at a rate that a peer which is not asleep keeps up with; without it a
// stream of messages drowns in the peer's socket.
#pragma once

#include "provider/engine/core.h"

namespace uroce::engine::unreliable_pace {

// A buffer fills with packets as much as with bytes.
inline constexpr size_t kMinPaced = 512;

// Bytes per microsecond towards a peer whose receive buffer is that large (as the kernel tells, its overhead
// included): one that is off the CPU for four milliseconds loses nothing.
uint32_t rate_for(size_t receive_buffer);

// False: not now; the queue pair is served again when it may.
bool may_send(Core& core, Qp& qp, Time now);
void sent(const Core& core, Qp& qp, size_t bytes);

}  // namespace uroce::engine::unreliable_pace
