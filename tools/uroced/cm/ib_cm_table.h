// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The endpoints of the communication manager and the ways to find one. What a peer chooses (its ids, its QPN)
// is looked up together with the GID that the MAD came from, so that nobody reaches the connections of
// another.
#pragma once

#include <memory>
#include <unordered_map>

#include "provider/engine/timer_heap.h"
#include "tools/uroced/cm/ib_cm.h"
#include "tools/uroced/cm/keyed_hash.h"

namespace uroce::cm {

// What `last` of a connection holds: the message to be sent again.
enum class Sent : uint8_t { nothing, req, rep, rtu, dreq, rej, sidr_req, sidr_rep };

struct Connection {
  Endpoint id = 0;
  State state = State::idle;
  bool owned = true;  // false after release(): ends by itself, without events
  bool passive = false;
  bool extended = false;      // XRC: the QPN of a REP stands in its EECN
  bool remote_known = false;  // remote_id is
  Route route;                // to the peer
  uint32_t remote_id = 0;     // the peer's id; of a SIDR_REQ: its request id
  uint64_t transaction = 0;   // of the REQ or SIDR_REQ: everything up to the RTU carries it
  uint64_t service_id = 0;    // SIDR only
  uint32_t local_qpn = 0, remote_qpn = 0;
  uint64_t local_ca_guid = 0, remote_ca_guid = 0;

  // How long an answer may take, and how often to ask again (ib_cm_retransmit.cc).
  int64_t full_wait_ns = 0;
  int64_t path_wait_ns = 0;  // there and back
  int64_t timewait_ns = 0;
  uint8_t retries = 0;
  uint8_t waits_left = 0;
  uint8_t early_sent = 0;
  bool may_extend = false;  // by an MRA; once for each message sent
  Time wait_ends;

  Sent sent = Sent::nothing;
  wire::Mad last;
  engine::TimerSlot timer;
};

class EndpointTable {
 public:
  EndpointTable(uint64_t seed, const IbCm::Limits& limits);
  EndpointTable(const EndpointTable&) = delete;

  // An endpoint of ours in `state`; nullptr: no room.
  Connection* create(const Route& route, State state);
  // For a request of a peer, to be found by find_request(); nullptr: no room, or too many that wait for an
  // answer.
  Connection* create_request(const Route& from, State state, uint32_t remote_id);
  void erase(Connection& c);
  Connection* find(Endpoint id) const;
  // The endpoint that a REQ, or a SIDR_REQ, of this peer and id made.
  Connection* find_request(const Route& from, bool sidr, uint32_t remote_id) const;

  // Changes of state go through here.
  void move(Connection& c, State next);

  // The connection that has the peer's QP. Held from claim_remote_qp() until the state is timewait or idle.
  Connection* find_remote_qp(const Route& from, uint32_t qpn, uint64_t ca_guid) const;
  // Returns who had it until now, or nullptr.
  Connection* claim_remote_qp(Connection& c);

  void set_timer(Connection& c, Time at);
  void stop_timer(Connection& c) { timers_.remove(c); }
  Connection* pop_due(Time now) { return timers_.pop_due(now); }
  Time next_deadline() const { return timers_.next(); }

  void erase_device(uint32_t device);
  size_t size() const { return by_id_.size(); }
  uint64_t new_transaction() { return keyed_hash<1>(transaction_key_, {++transactions_}); }

 private:
  struct PeerKey {
    wire::Gid peer;
    uint32_t device = 0;
    uint32_t number = 0;  // comm id or QPN
    uint64_t rest = 0;    // CA GUID, or what kind of request
    bool operator==(const PeerKey&) const = default;
  };
  struct PeerKeyHash {
    HashKey key;
    size_t operator()(const PeerKey& k) const;
  };
  template <typename Value>
  using PeerMap = std::unordered_map<PeerKey, Value, PeerKeyHash>;

  static PeerKey request_key(const Route& from, bool sidr, uint32_t remote_id);
  static PeerKey remote_qp_key(const Route& from, uint32_t qpn, uint64_t ca_guid);
  static PeerKey source_key(const Route& from) { return {from.path.destination, from.device, 0, 0}; }
  Endpoint new_id();
  void count_half_open(const Connection& c, bool more);
  void unclaim_remote_qp(Connection& c);

  const IbCm::Limits limits_;
  const HashKey id_key_, transaction_key_;
  uint32_t ids_ = 0;
  uint64_t transactions_ = 0;
  std::unordered_map<Endpoint, std::unique_ptr<Connection>> by_id_;
  PeerMap<Connection*> by_request_;
  PeerMap<Connection*> by_remote_qp_;
  PeerMap<uint32_t> half_open_of_;  // requests without an answer, by peer
  size_t half_open_ = 0;
  engine::TimerHeap<Connection, &Connection::timer> timers_;
};

}  // namespace uroce::cm
