// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One packet of the protocol of kmod-shim/uapi/uroce_daemon.h, with the descriptors that travel with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "tools/uroced/fd.h"

namespace uroce::daemon {

struct Message {
  uroce_msg header{};
  std::vector<std::byte> payload;
  std::vector<Fd> descriptors;
};

enum class Receive {
  message,
  nothing,  // none waits
  ended,    // the other side has closed
  garbage,  // not this protocol, or cut off; the header, if it could be read, is in the message
};

Receive receive_message(int fd, Message& out);

enum class Sent { yes, would_block, no };
Sent send_message(int fd, const uroce_msg& header, std::span<const std::byte> payload,
                  std::span<const int> descriptors);

}  // namespace uroce::daemon
