// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/fuzz/cm_feeder.h"

#include <algorithm>

#include "provider/wire/byte_order.h"

namespace uroce::fuzz {
namespace {

cm::IbCm::Limits small_limits(size_t endpoints) {
  cm::IbCm::Limits limits;
  limits.endpoints = endpoints;
  limits.half_open = endpoints / 2;
  limits.half_open_per_source = endpoints / 4;
  return limits;
}

}  // namespace

CmFeeder::CmFeeder() : cm_(1, small_limits(kEndpoints)) {}

cm::Route CmFeeder::route(uint8_t peer) const {
  cm::Route r;
  r.device = 1;
  r.path.source.raw[15] = 1;
  r.path.destination.raw[15] = static_cast<uint8_t>(2 + peer % 3);
  return r;
}

size_t CmFeeder::drain() {
  size_t sent = 0;
  while (cm_.poll_transmit()) ++sent;
  while (const auto event = cm_.poll_event()) {
    ++events_;
    if (std::find(endpoints_.begin(), endpoints_.end(), event->endpoint) == endpoints_.end())
      endpoints_.push_back(event->endpoint);
  }
  if (cm_.live() > kEndpoints) sound_ = false;
  std::erase_if(endpoints_, [this](cm::Endpoint e) { return !cm_.state(e).has_value(); });
  return sent;
}

void CmFeeder::call(uint8_t which, cm::Endpoint endpoint) {
  wire::CmReq req;
  req.local_qpn = which;
  req.primary.local_ack_timeout = 10;
  switch (which) {
    case 0: endpoints_.push_back(cm_.connect(now_, route(which), req)); break;
    case 1: endpoints_.push_back(cm_.resolve(now_, route(which), {}, 10, 2)); break;
    case 2: cm_.accept(now_, endpoint, {}); break;
    case 3: cm_.confirm(now_, endpoint, {}); break;
    case 4: cm_.reject(now_, endpoint, wire::CmRejectReason::consumer_defined, {}, {}); break;
    case 5: cm_.disconnect(now_, endpoint, {}); break;
    case 6: cm_.establish(now_, endpoint); break;
    case 7: cm_.answer_sidr(now_, endpoint, {}); break;
    case 8: cm_.release(now_, endpoint); break;
    case 9: cm_.drop(endpoint); break;
    default: return;
  }
  drain();
}

void CmFeeder::mad(uint8_t action, uint8_t endpoint, std::span<const uint8_t> bytes) {
  const bool whole = (action & 0x80) != 0;
  std::vector<std::byte> out(whole ? bytes.size() : wire::kMadBytes);  // of its own size, so that a sanitizer
                                                                       // sees the end
  if (whole) {
    std::transform(bytes.begin(), bytes.end(), out.begin(), [](uint8_t b) { return std::byte{b}; });
  } else {
    out[0] = std::byte{1}, out[1] = std::byte{7}, out[2] = std::byte{2}, out[3] = std::byte{3};
    const size_t size = std::min(bytes.size(), out.size() - 16);
    std::transform(bytes.begin(), bytes.begin() + size, out.begin() + 16,
                   [](uint8_t b) { return std::byte{b}; });
  }
  if (endpoint != 0 && endpoint <= endpoints_.size() && out.size() >= 32) {
    const bool request_id = out[17] == std::byte{0x18};  // SIDR_REP
    wire::store_be32(out.data() + (request_id ? 24 : 28), endpoints_[endpoint - 1]);
  }
  cm_.on_mad(now_, route((action >> 5) & 3), out);
  if (drain() > 2) sound_ = false;  // an answer, and what it says to a connection that is stale
}

void CmFeeder::feed(std::span<const uint8_t> input) {
  while (input.size() >= 3) {
    const uint8_t action = input[0], endpoint = input[1];
    const size_t length = std::min<size_t>(input[2], input.size() - 3);
    mad(action, endpoint, input.subspan(3, length));
    input = input.subspan(3 + length);
    if (endpoint < endpoints_.size()) call(action & 15, endpoints_[endpoint]);
    if ((action & 15) < 2) call(action & 15, 0);
    if ((action & 16) != 0) {
      now_ = std::max(now_ + 300'000'000, cm_.next_deadline().value_or(now_));
      cm_.on_deadline(now_);
      drain();
    }
  }
}

}  // namespace uroce::fuzz
