// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What stands in a completion's vendor_err: where its status came from.
#pragma once

#include <cstdint>

namespace uroce::engine {

enum class VendorError : uint32_t {
  none = 0,
  flushed = 1,             // the queue pair was in ERR (or SQE)
  local_key = 2,           // lkey unknown, of another domain, without the right, or out of its bounds
  local_fault = 3,         // the memory behind a good lkey is not there
  nak = 4,                 // the peer refused
  no_answer = 5,           // retry budget of the IB timeout used up
  receiver_not_ready = 6,  // RNR retries used up
  response_length = 7,     // READ or atomic response of another length than asked for
  no_read_depth = 8,       // READ or atomic on a queue pair with max_rd_atomic 0
  bind_refused = 9,
  invalidate_refused = 10,
  receive_too_small = 11,
  peer_request_invalid = 12,  // a message broke off because the peer violated the protocol
  peer_access = 13,
  completion_queue = 14,  // the completion queue overran
};

}  // namespace uroce::engine
