// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// How much may be under way to one destination: a path and the slot of the peer's QPN, which together name
// one receive buffer. All queue pairs that lead there share one window.
//
// The window counts packets, each charged with at least kMinCharge bytes, because a receive buffer fills with
// packets as much as with bytes. It starts small, doubles every round trip until the first loss, then grows
// by one packet a round trip; a loss halves it, a congestion notification takes a quarter, each at most once
// a round trip.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "provider/engine/attributes.h"
#include "provider/engine/engine.h"
#include "provider/engine/intrusive_list.h"
#include "provider/engine/path.h"
#include "provider/engine/qp.h"

namespace uroce::engine {

inline constexpr uint32_t kMinCharge = 2048;
constexpr uint32_t charge_of(uint32_t mtu) {
  return mtu > kMinCharge ? mtu : kMinCharge;
}

class Destination {
 public:
  Destination(const EngineConfig& config, PathId path, uint32_t slot);

  // ---- window -----------------------------------------------------------------------------------
  // May a packet charged with `charge` leave? A queue pair that has nothing under way is let through up to
  // twice the window, so that queue pairs whose losses nobody repairs (no timer) cannot stop the others.
  bool admits(uint32_t charge, bool idle) const {
    const uint64_t limit = window();
    return in_flight_ + charge <= limit || in_flight_ == 0 || (idle && in_flight_ + charge <= 2 * limit);
  }
  uint32_t window() const { return heard_ ? window_ : first_window_; }
  uint64_t in_flight() const { return in_flight_; }
  void change_in_flight(int64_t delta) {
    in_flight_ = static_cast<uint64_t>(static_cast<int64_t>(in_flight_) + delta);
  }

  // ---- what the peer says -----------------------------------------------------------------------
  // The first packet after everything was acknowledged: a peer that was left alone for long may be asleep,
  // and its buffer takes no more than that of a new one.
  void on_begin(Time now);
  void on_acknowledged(Time now, uint64_t charge, uint32_t mtu_charge);
  void on_loss(Time now, uint32_t mtu_charge);
  void on_timeout(Time now, uint32_t mtu_charge, bool repeated);
  // What the last timeout was: a loss, or a peer that was slow. The latter gives the window back.
  void on_timeout_answered(bool lost);
  void on_congestion_notification(Time now, uint32_t mtu_charge);
  void on_round_trip(int64_t ns);

  // ---- times ------------------------------------------------------------------------------------
  int64_t smoothed_rtt_ns() const { return srtt_ns_; }
  // One round trip, or a guess while none was measured.
  int64_t round_trip_ns() const { return srtt_ns_ != 0 ? srtt_ns_ : kUnknownRoundTripNs; }
  int64_t retransmission_timeout_ns() const;

  PathId path() const { return path_; }
  uint32_t slot() const { return slot_; }

  uint32_t users = 0;                           // queue pairs
  IntrusiveList<Qp, &Qp::window_link> waiting;  // for room in the window

 private:
  static constexpr int64_t kUnknownRoundTripNs = 50'000;
  static constexpr int64_t kFirstTimeoutNs = 10'000'000;
  static constexpr int64_t kMinTimeoutNs = 1'000'000;
  static constexpr int64_t kMaxTimeoutNs = 200'000'000;

  bool may_cut(Time now);
  void cut_to(uint64_t window, uint32_t mtu_charge);

  PathId path_;
  uint32_t slot_;
  uint32_t max_window_;
  uint32_t first_window_;  // until the peer was heard: a burst that any receive buffer holds
  uint32_t start_window_;  // of a peer that was heard
  uint32_t window_;
  uint32_t threshold_;  // slow start below
  bool heard_ = false;
  uint64_t in_flight_ = 0;
  uint64_t growth_ = 0;  // charge acknowledged towards the next packet of growth
  Time last_heard_{};
  Time last_cut_{-1'000'000'000};
  uint32_t undo_window_ = 0;  // before the last timeout; 0: nothing to undo
  uint32_t undo_threshold_ = 0;
  int64_t srtt_ns_ = 0;
  int64_t rttvar_ns_ = 0;
};

// Destinations by path and slot. Made and released by control calls only.
class DestinationTable {
 public:
  explicit DestinationTable(const EngineConfig& config) : config_(config) {}
  Destination* acquire(PathId path, wire::Qpn qpn);  // nullptr: out of memory
  void release(Destination* destination);

 private:
  static uint64_t key(PathId path, uint32_t slot) { return (static_cast<uint64_t>(path.value) << 16) | slot; }
  const EngineConfig& config_;
  std::unordered_map<uint64_t, std::unique_ptr<Destination>> table_;
};

}  // namespace uroce::engine
