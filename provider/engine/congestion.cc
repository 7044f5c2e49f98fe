// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/congestion.h"

#include <algorithm>
#include <new>

namespace uroce::engine {

Destination::Destination(const EngineConfig& config, PathId path, uint32_t slot)
    : path_(path),
      slot_(slot),
      max_window_(config.max_window_bytes),
      start_window_(std::min(
          {config.start_window_bytes, config.start_window_packets * kMinCharge, config.max_window_bytes})),
      window_(start_window_),
      threshold_(config.max_window_bytes) {
  first_window_ = std::min(config.burst_bytes, window_);
}

void Destination::on_begin(Time now) {
  if (window_ <= start_window_ || now - last_heard_ < retransmission_timeout_ns()) return;
  threshold_ = std::max(threshold_, window_ / 4 * 3);  // it grows back quickly to nearly what it was
  window_ = start_window_;
}

void Destination::on_acknowledged(Time now, uint64_t charge, uint32_t mtu_charge) {
  heard_ = true;
  last_heard_ = now;
  if (window_ < threshold_) {
    window_ = static_cast<uint32_t>(std::min<uint64_t>(window_ + charge, max_window_));
    return;
  }
  growth_ += charge;
  if (growth_ >= window_) {  // one packet a window, which is about one a round trip
    growth_ = 0;
    window_ = std::min(window_ + mtu_charge, max_window_);
  }
}

bool Destination::may_cut(Time now) {
  if (now - last_cut_ < round_trip_ns()) return false;
  last_cut_ = now;
  return true;
}

void Destination::cut_to(uint64_t window, uint32_t mtu_charge) {
  window_ = static_cast<uint32_t>(std::max<uint64_t>(window, 2 * mtu_charge));
  threshold_ = window_;
  growth_ = 0;
  undo_window_ = undo_threshold_ = 0;
}

void Destination::on_loss(Time now, uint32_t mtu_charge) {
  heard_ = true;
  if (may_cut(now)) cut_to(window_ / 2, mtu_charge);
}

void Destination::on_timeout(Time now, uint32_t mtu_charge, bool repeated) {
  if (!may_cut(now)) return;
  const uint32_t half = std::max(window_ / 2, 2 * mtu_charge);
  const uint32_t undo_window = std::max(window_, undo_window_);
  const uint32_t undo_threshold = std::max(threshold_, undo_threshold_);
  // The first time it is most likely the end of a burst that was lost. After that everything under way is
  // gone: begin again with little, and grow back quickly to half.
  cut_to(repeated ? 2 * mtu_charge : half, mtu_charge);
  threshold_ = half;
  undo_window_ = undo_window;
  undo_threshold_ = undo_threshold;
}

void Destination::on_timeout_answered(bool lost) {
  if (!lost) {
    window_ = std::max(window_, undo_window_);
    threshold_ = std::max(threshold_, undo_threshold_);
  }
  undo_window_ = undo_threshold_ = 0;
}

void Destination::on_congestion_notification(Time now, uint32_t mtu_charge) {
  heard_ = true;
  if (may_cut(now)) cut_to(static_cast<uint64_t>(window_) * 3 / 4, mtu_charge);
}

// RFC 6298's estimator: the same question in another protocol.
void Destination::on_round_trip(int64_t ns) {
  heard_ = true;
  if (srtt_ns_ == 0) {
    srtt_ns_ = std::max<int64_t>(ns, 1);
    rttvar_ns_ = ns / 2;
    return;
  }
  const int64_t error = ns - srtt_ns_;
  srtt_ns_ = std::max<int64_t>(srtt_ns_ + error / 8, 1);
  rttvar_ns_ += ((error < 0 ? -error : error) - rttvar_ns_) / 4;
}

int64_t Destination::retransmission_timeout_ns() const {
  if (srtt_ns_ == 0) return kFirstTimeoutNs;
  return std::clamp(srtt_ns_ + 4 * rttvar_ns_, kMinTimeoutNs, kMaxTimeoutNs);
}

Destination* DestinationTable::acquire(PathId path, wire::Qpn qpn) {
  try {
    auto& entry = table_[key(path, qpn.slot())];
    if (entry == nullptr) entry = std::make_unique<Destination>(config_, path, qpn.slot());
    ++entry->users;
    return entry.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void DestinationTable::release(Destination* destination) {
  if (destination == nullptr || --destination->users != 0) return;
  table_.erase(key(destination->path(), destination->slot()));
}

}  // namespace uroce::engine
