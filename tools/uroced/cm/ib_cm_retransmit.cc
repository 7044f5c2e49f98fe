// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Waiting for answers (IBA 12.9.8.6). A message that is not answered is promised `retries` repetitions, each
// after a wait that the REQ names: with what Linux puts there, six seconds. A lost MAD would cost all of
// that, so within the first wait there are repetitions that do not count.
#include <algorithm>

#include "tools/uroced/cm/ib_cm_impl.h"

namespace uroce::cm {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kEarly[] = {250 * kMs, 500 * kMs, 1000 * kMs, 2000 * kMs};
constexpr int64_t kShortestWait = 20 * kMs;  // a peer may name microseconds
constexpr uint8_t kLargestExponent = 24;

}  // namespace

int64_t cm_time_ns(uint8_t exponent) {
  return int64_t{4096} << std::min(exponent, kLargestExponent);
}

void set_times(Connection& c, const wire::CmReq& request, uint8_t response_timeout) {
  c.path_wait_ns = cm_time_ns(request.primary.local_ack_timeout);  // twice the packet life, and the ack delay
  c.full_wait_ns = cm_time_ns(response_timeout) + c.path_wait_ns;
  c.timewait_ns = c.path_wait_ns;
  add_ack_delay(c, 0);
  c.retries = request.max_cm_retries & 15;
}

void add_ack_delay(Connection& c, uint8_t target_ack_delay) {
  c.timewait_ns = std::clamp(c.timewait_ns + cm_time_ns(target_ack_delay), 8 * kMs, 4000 * kMs);
}

void IbCm::Impl::start_wait(Connection& c, Time now) {
  c.full_wait_ns = std::max(c.full_wait_ns, kShortestWait);
  c.waits_left = c.retries;
  c.early_sent = 0;
  c.may_extend = true;
  c.wait_ends = now + c.full_wait_ns;
  table_.set_timer(c, std::min(now + kEarly[0], c.wait_ends));
}

// The peer needs longer (MRA). Once for each message that was sent: who wants more has to be asked again.
void IbCm::Impl::extend_wait(Connection& c, Time now, uint8_t service_timeout) {
  if (!c.may_extend) {
    ++counters_.duplicates;
    return;
  }
  c.may_extend = false;
  c.early_sent = std::size(kEarly);
  c.wait_ends = std::max(c.wait_ends, now + (cm_time_ns(service_timeout) + c.path_wait_ns));
  table_.set_timer(c, c.wait_ends);
}

void IbCm::Impl::on_wait(Connection& c, Time now) {
  if (now < c.wait_ends) {
    ++c.early_sent;
  } else {
    if (c.waits_left == 0) return give_up(c, now);
    --c.waits_left;
    c.early_sent = std::size(kEarly);
    c.wait_ends = now + c.full_wait_ns;
  }
  c.may_extend = true;
  send_again(c);
  const Time next = c.early_sent < std::size(kEarly) ? now + kEarly[c.early_sent] : c.wait_ends;
  table_.set_timer(c, std::min(next, c.wait_ends));
}

void IbCm::Impl::give_up(Connection& c, Time now) {
  switch (c.state) {
    case State::req_sent:
    case State::mra_received:
    case State::rep_sent:
      send_reject_timeout(c);  // it may have heard us, and only its answers are lost
      emit(c, Event::Kind::unreachable, {});
      return finish(c);
    case State::dreq_sent: return end_connection(c, now, {}, true);
    default: emit(c, Event::Kind::unreachable, {}); return finish(c);  // sidr_req_sent
  }
}

}  // namespace uroce::cm
