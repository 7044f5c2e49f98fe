// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/shared_receive_queue.h"

#include "provider/engine/qp.h"

namespace uroce::engine {

SharedReceiveQueue::Impl::Impl(const SrqConfig& c) : config(c), queue(c.max_wr, c.max_sge) {
  impl_ = this;
}

int SharedReceiveQueue::post_recv(const RecvRequest& request) {
  return impl_->queue.post(request);
}
uint32_t SharedReceiveQueue::number() const {
  return impl_->config.srq_number;
}
uint32_t SharedReceiveQueue::armed_limit() const {
  return impl_->limit.load(std::memory_order_relaxed);
}

}  // namespace uroce::engine
