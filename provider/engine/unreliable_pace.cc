// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/unreliable_pace.h"

#include <algorithm>

namespace uroce::engine::unreliable_pace {

uint32_t rate_for(size_t receive_buffer) {
  constexpr size_t kPauseUs = 4000;
  constexpr size_t kLeast = 50;
  constexpr size_t kMost = 1000;
  return static_cast<uint32_t>(std::clamp(receive_buffer / kPauseUs, kLeast, kMost));
}

bool may_send(Core& core, Qp& qp, Time now) {
  RequesterState& req = qp.req;
  const int64_t rate = core.config.unreliable_bytes_per_us;
  if (rate == 0) return true;
  if (qp.pace_until != kNever) return false;
  const auto burst = static_cast<int64_t>(core.config.unreliable_burst_bytes);
  if (req.pace_tokens <= 0) {
    const int64_t microseconds = std::min<int64_t>((now - req.pace_at) / 1000, burst);
    req.pace_tokens = std::min(req.pace_tokens + microseconds * rate, burst);
    req.pace_at = now;
    if (req.pace_tokens <= 0) {
      // Half a burst at a time: fewer and larger datagrams, fewer wake-ups.
      qp.pace_until = now + (burst / 2 - req.pace_tokens) * 1000 / rate;
      core.update_timer(qp);
      return false;
    }
  }
  return true;
}

void sent(const Core& core, Qp& qp, size_t bytes) {
  if (core.config.unreliable_bytes_per_us != 0)
    qp.req.pace_tokens -= static_cast<int64_t>(std::max<size_t>(bytes, kMinPaced));
}

}  // namespace uroce::engine::unreliable_pace
