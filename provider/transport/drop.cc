// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/transport.h"

namespace uroce::transport {

const char* to_string(Drop reason) {
  switch (reason) {
    case Drop::too_short: return "too short for RoCEv2";
    case Drop::bad_icrc: return "wrong ICRC";
    case Drop::foreign_destination: return "not addressed to a GID of this device";
    case Drop::other_slot: return "for another slot, handed on";
    case Drop::other_slot_lost: return "for another slot, lost";
    case Drop::send_no_buffer: return "no send buffer";
    case Drop::send_too_big: return "larger than the netdev's MTU";
    case Drop::send_unreachable: return "destination unreachable";
    case Drop::send_failed: return "send failed";
    case Drop::truncated: return "truncated";
    case Drop::kCount: break;
  }
  return "?";
}

}  // namespace uroce::transport
