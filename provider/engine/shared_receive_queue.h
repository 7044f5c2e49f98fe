// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Shared receive queue: the part that posting threads see.
#pragma once

#include <cstdint>

#include "provider/engine/work.h"

namespace uroce::engine {

class SharedReceiveQueue {
 public:
  // Under the SRQ's own lock: 0; ENOMEM: full; EINVAL: too many SGEs.
  int post_recv(const RecvRequest& request);

  // Any thread.
  uint32_t number() const;
  uint32_t armed_limit() const;  // 0 after the event fired

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 protected:
  SharedReceiveQueue() = default;
  ~SharedReceiveQueue() = default;
  Impl* impl_ = nullptr;
};

}  // namespace uroce::engine
