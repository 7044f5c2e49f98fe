// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Shared receive queues, basic and XRC.
#pragma once

#include <infiniband/verbs.h>

#include "provider/engine/shared_receive_queue.h"
#include "provider/verbs/context.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/private_abi.h"
#include "provider/verbs/spin_lock.h"

namespace uroce::verbs {

struct SharedReceiveQueue : abi::verbs_srq {
  ContextUse use;
  Context* owner = nullptr;
  engine::SharedReceiveQueue* queue = nullptr;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  alignas(64) SpinLock lock;  // one posting thread at a time

  static SharedReceiveQueue& of(ibv_srq* base) {
    return static_cast<SharedReceiveQueue&>(*reinterpret_cast<abi::verbs_srq*>(base));
  }
};

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attributes);
int destroy_srq(ibv_srq* srq);
int get_srq_num(ibv_srq* srq, uint32_t* number);

// recv.cc
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;

}  // namespace uroce::verbs
