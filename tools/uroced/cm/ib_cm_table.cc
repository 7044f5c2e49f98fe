// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/cm/ib_cm_table.h"

#include <cstring>
#include <vector>

namespace uroce::cm {
namespace {

enum Use : uint64_t { kIds = 1, kTransactions, kLookUp };

bool half_open(State state) {
  return state == State::req_received || state == State::sidr_req_received;
}

// A permutation of the 32-bit numbers (four Feistel rounds): ids that look random and do not come again soon.
uint32_t permute(const HashKey& key, uint32_t value) {
  auto left = static_cast<uint16_t>(value >> 16);
  auto right = static_cast<uint16_t>(value);
  for (uint64_t round = 0; round < 4; ++round) {
    const auto mixed = static_cast<uint16_t>(left ^ keyed_hash<2>(key, {round, right}));
    left = right;
    right = mixed;
  }
  return uint32_t{left} << 16 | right;
}

}  // namespace

size_t EndpointTable::PeerKeyHash::operator()(const PeerKey& k) const {
  uint64_t gid[2];
  std::memcpy(gid, k.peer.raw.data(), sizeof gid);
  return keyed_hash<4>(key, {gid[0], gid[1], uint64_t{k.device} << 32 | k.number, k.rest});
}

EndpointTable::EndpointTable(uint64_t seed, const IbCm::Limits& limits)
    : limits_(limits),
      id_key_(HashKey::from(seed, kIds)),
      transaction_key_(HashKey::from(seed, kTransactions)),
      by_request_(0, PeerKeyHash{HashKey::from(seed, kLookUp)}),
      by_remote_qp_(0, by_request_.hash_function()),
      half_open_of_(0, by_request_.hash_function()) {}

EndpointTable::PeerKey EndpointTable::request_key(const Route& from, bool sidr, uint32_t remote_id) {
  return {from.path.destination, from.device, remote_id, sidr ? 1u : 0u};
}

EndpointTable::PeerKey EndpointTable::remote_qp_key(const Route& from, uint32_t qpn, uint64_t ca_guid) {
  return {from.path.destination, from.device, qpn, ca_guid};
}

Endpoint EndpointTable::new_id() {
  for (;;) {
    const Endpoint id = permute(id_key_, ++ids_);
    if (id != 0 && !by_id_.contains(id)) return id;
  }
}

Connection* EndpointTable::create(const Route& route, State state) {
  if (by_id_.size() >= limits_.endpoints) return nullptr;
  auto owned = std::make_unique<Connection>();
  Connection* c = owned.get();
  c->id = new_id();
  c->route = route;
  c->state = state;
  by_id_.emplace(c->id, std::move(owned));
  return c;
}

Connection* EndpointTable::create_request(const Route& from, State state, uint32_t remote_id) {
  if (half_open_ >= limits_.half_open) return nullptr;
  const auto source = half_open_of_.find(source_key(from));
  if (source != half_open_of_.end() && source->second >= limits_.half_open_per_source) return nullptr;
  Connection* c = create(from, state);
  if (c == nullptr) return nullptr;
  c->passive = true;
  c->remote_id = remote_id;
  c->remote_known = true;
  by_request_[request_key(from, state == State::sidr_req_received, remote_id)] = c;
  count_half_open(*c, true);
  return c;
}

void EndpointTable::erase(Connection& c) {
  move(c, State::idle);
  for (const bool sidr : {false, true}) {
    const auto request = by_request_.find(request_key(c.route, sidr, c.remote_id));
    if (request != by_request_.end() && request->second == &c) by_request_.erase(request);
  }
  by_id_.erase(c.id);
}

Connection* EndpointTable::find(Endpoint id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

Connection* EndpointTable::find_request(const Route& from, bool sidr, uint32_t remote_id) const {
  const auto found = by_request_.find(request_key(from, sidr, remote_id));
  return found == by_request_.end() ? nullptr : found->second;
}

void EndpointTable::move(Connection& c, State next) {
  if (half_open(c.state) && !half_open(next)) count_half_open(c, false);
  if (next == State::timewait || next == State::idle) {
    unclaim_remote_qp(c);
    stop_timer(c);
  }
  c.state = next;
}

void EndpointTable::count_half_open(const Connection& c, bool more) {
  const PeerKey source = source_key(c.route);
  if (more) {
    ++half_open_;
    ++half_open_of_[source];
    return;
  }
  --half_open_;
  const auto found = half_open_of_.find(source);
  if (--found->second == 0) half_open_of_.erase(found);
}

Connection* EndpointTable::find_remote_qp(const Route& from, uint32_t qpn, uint64_t ca_guid) const {
  const auto found = by_remote_qp_.find(remote_qp_key(from, qpn, ca_guid));
  return found == by_remote_qp_.end() ? nullptr : found->second;
}

Connection* EndpointTable::claim_remote_qp(Connection& c) {
  Connection*& holder = by_remote_qp_[remote_qp_key(c.route, c.remote_qpn, c.remote_ca_guid)];
  Connection* previous = holder;
  holder = &c;
  return previous == &c ? nullptr : previous;
}

void EndpointTable::unclaim_remote_qp(Connection& c) {
  const auto found = by_remote_qp_.find(remote_qp_key(c.route, c.remote_qpn, c.remote_ca_guid));
  if (found != by_remote_qp_.end() && found->second == &c) by_remote_qp_.erase(found);
}

void EndpointTable::set_timer(Connection& c, Time at) {
  timers_.remove(c);
  timers_.arm(c, at);
}

void EndpointTable::erase_device(uint32_t device) {
  std::vector<Connection*> gone;
  for (const auto& [id, c] : by_id_) {
    if (c->route.device == device) gone.push_back(c.get());
  }
  for (Connection* c : gone) erase(*c);
}

}  // namespace uroce::cm
