// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The way in and out.
#include "tools/uroced/cm/ib_cm.h"

#include "tools/uroced/cm/ib_cm_impl.h"

namespace uroce::cm {

void IbCm::Impl::on_mad(Time now, const Route& from, std::span<const std::byte> mad) {
  ++counters_.received;
  wire::CmMessage message;
  uint64_t transaction = 0;
  if (wire::parse_cm(mad, message, transaction) != wire::CmParseError::none) {
    ++counters_.malformed;
    return;
  }
  const Arrival arrival{now, from, transaction};
  std::visit([&](const auto& m) { on(arrival, m); }, message);
}

void IbCm::Impl::on_deadline(Time now) {
  while (Connection* c = table_.pop_due(now)) {
    if (c->state == State::timewait) {
      on_timewait_end(*c);
    } else {
      on_wait(*c, now);
    }
  }
}

Connection* IbCm::Impl::addressed(const Arrival& a, uint32_t id) const {
  Connection* c = table_.find(id);
  if (c == nullptr || c->route.device != a.from.device) return nullptr;
  return c->route.path.destination == a.from.path.destination ? c : nullptr;
}

Connection* IbCm::Impl::owned(Endpoint endpoint) const {
  Connection* c = table_.find(endpoint);
  return c != nullptr && c->owned ? c : nullptr;
}

void IbCm::Impl::emit(const Connection& c, Event::Kind kind, const wire::CmMessage& message, bool timed_out) {
  if (c.owned) events_.push_back({c.id, kind, timed_out, c.route, message});
}

void IbCm::Impl::send(const Route& route, const wire::CmMessage& message, uint64_t transaction) {
  ++counters_.sent;
  outgoing_.emplace_back();
  outgoing_.back().route = route;
  wire::write_cm(message, transaction, outgoing_.back().mad);
}

void IbCm::Impl::send(Connection& c, Sent kind, const wire::CmMessage& message, uint64_t transaction) {
  send(c.route, message, transaction);
  c.sent = kind;
  c.last = outgoing_.back().mad;
}

void IbCm::Impl::send_again(Connection& c) {
  ++counters_.sent;
  ++counters_.retransmitted;
  outgoing_.push_back({c.route, c.last});
}

std::optional<Outgoing> IbCm::Impl::poll_transmit() {
  if (outgoing_.empty()) return std::nullopt;
  std::optional<Outgoing> out = outgoing_.front();
  outgoing_.pop_front();
  return out;
}

std::optional<Event> IbCm::Impl::poll_event() {
  while (!events_.empty()) {
    std::optional<Event> event = std::move(events_.front());
    events_.pop_front();
    if (owned(event->endpoint) != nullptr) return event;  // else released while it waited
  }
  return std::nullopt;
}

void IbCm::Impl::drop(Endpoint endpoint) {
  if (Connection* c = owned(endpoint)) table_.erase(*c);
}

void IbCm::Impl::forget_device(uint32_t device) {
  table_.erase_device(device);
  std::erase_if(outgoing_, [device](const Outgoing& out) { return out.route.device == device; });
}

IbCm::IbCm(uint64_t seed) : IbCm(seed, Limits{}) {}
IbCm::IbCm(uint64_t seed, const Limits& limits) : impl_(std::make_unique<Impl>(seed, limits)) {}
IbCm::~IbCm() = default;

void IbCm::on_mad(Time now, const Route& from, std::span<const std::byte> mad) {
  impl_->on_mad(now, from, mad);
}
void IbCm::on_deadline(Time now) {
  impl_->on_deadline(now);
}
Endpoint IbCm::connect(Time now, const Route& to, const wire::CmReq& request) {
  return impl_->connect(now, to, request);
}
int IbCm::confirm(Time, Endpoint endpoint, std::span<const uint8_t> private_data) {
  return impl_->confirm(endpoint, private_data);
}
int IbCm::accept(Time now, Endpoint endpoint, const wire::CmRep& reply) {
  return impl_->accept(now, endpoint, reply);
}
int IbCm::establish(Time, Endpoint endpoint) {
  return impl_->establish(endpoint);
}
int IbCm::reject(Time, Endpoint endpoint, wire::CmRejectReason reason, std::span<const uint8_t> info,
                 std::span<const uint8_t> private_data) {
  return impl_->reject(endpoint, reason, info, private_data);
}
int IbCm::disconnect(Time now, Endpoint endpoint, std::span<const uint8_t> private_data) {
  return impl_->disconnect(now, endpoint, private_data);
}
Endpoint IbCm::resolve(Time now, const Route& to, const wire::CmSidrReq& request, uint8_t response_timeout,
                       uint8_t max_retries) {
  return impl_->resolve(now, to, request, response_timeout, max_retries);
}
int IbCm::answer_sidr(Time, Endpoint endpoint, const wire::CmSidrRep& answer) {
  return impl_->answer_sidr(endpoint, answer);
}
void IbCm::release(Time now, Endpoint endpoint) {
  impl_->release(now, endpoint);
}
void IbCm::drop(Endpoint endpoint) {
  impl_->drop(endpoint);
}
void IbCm::forget_device(uint32_t device) {
  impl_->forget_device(device);
}
std::optional<Outgoing> IbCm::poll_transmit() {
  return impl_->poll_transmit();
}
std::optional<Event> IbCm::poll_event() {
  return impl_->poll_event();
}
std::optional<Time> IbCm::next_deadline() const {
  const Time next = impl_->table().next_deadline();
  return next == engine::kNever ? std::nullopt : std::optional(next);
}
std::optional<State> IbCm::state(Endpoint endpoint) const {
  const Connection* c = impl_->table().find(endpoint);
  return c == nullptr ? std::nullopt : std::optional(c->state);
}
size_t IbCm::live() const {
  return impl_->table().size();
}
const IbCm::Counters& IbCm::counters() const {
  return impl_->counters();
}

}  // namespace uroce::cm
