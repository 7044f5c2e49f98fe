// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Queue pair: the part that posting threads see. Rings have one producer (a posting thread, under the queue's
// own lock, which the verbs layer holds) and one consumer (the engine, under the lane).
#pragma once

#include <atomic>
#include <cstdint>

#include "provider/engine/attributes.h"
#include "provider/engine/work.h"

namespace uroce::engine {

class QueuePair {
 public:
  // ---- posting threads, under the send lock / the receive lock ----------------------------------
  // 0; ENOMEM: queue full; EINVAL: wrong state, too many SGEs, inline too long, opcode the type does not
  // have, message too long. Then Engine::ring(). In SQE/ERR posts succeed and are flushed.
  int post_send(const SendRequest& request);
  // What post_send() would answer behind `ahead` further requests. For lists that are taken whole or not at
  // all.
  int check_send(const SendRequest& request, uint32_t ahead) const;
  int post_recv(const RecvRequest& request);

  // ---- any thread -------------------------------------------------------------------------------
  wire::Qpn qpn() const;
  QpType type() const;
  QpState state() const;  // as last published by the lane

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 protected:
  QueuePair() = default;
  ~QueuePair() = default;
  Impl* impl_ = nullptr;
};

}  // namespace uroce::engine
