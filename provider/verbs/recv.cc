// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Posting of receives, to a queue pair's own queue and to a shared one.
#include <cerrno>
#include <mutex>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/scratch.h"
#include "provider/verbs/srq.h"

namespace uroce::verbs {

namespace {

template <typename Queue>
int post_one(Queue& queue, const ibv_recv_wr& from) {
  if (from.num_sge < 0 || from.num_sge > UROCE_MAX_SGE) return EINVAL;
  Scratch<engine::SgEntry, UROCE_MAX_SGE> scratch;
  engine::SgEntry* const sges = scratch.data();
  const auto count = static_cast<size_t>(from.num_sge);
  for (size_t i = 0; i < count; ++i) {
    sges[i] = {from.sg_list[i].addr, from.sg_list[i].length, from.sg_list[i].lkey};
  }
  return queue.post_recv({.wr_id = from.wr_id, .sges = {sges, count}});
}

template <typename Queue>
int post_list(Context& context, Queue& queue, SpinLock& lock, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  int error = context.refused();
  {
    const std::lock_guard guard(lock);
    for (; wr != nullptr && error == 0; wr = error == 0 ? wr->next : wr) error = post_one(queue, *wr);
  }
  if (error != 0) *bad_wr = wr;
  return error;
}

}  // namespace

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  QueuePair& qp = QueuePair::of(base);
  const int error = post_list(*qp.owner, *qp.queue, qp.recv_lock, wr, bad_wr);
  // A receive waits for its message and gives the engine nothing to do, unless it is to be flushed. The state
  // is read after the post: either it says ERR here, or whoever sets it finds the receive.
  if (qp.queue->state() == engine::QpState::error && qp.owner->refused() == 0)
    qp.owner->data().posted(qp.queue);
  return error;
}

int post_srq_recv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(base);
  return post_list(*srq.owner, *srq.queue, srq.lock, wr, bad_wr);
}

}  // namespace uroce::verbs
