// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_poll_cq and arming.
#include <algorithm>
#include <cerrno>

#include "provider/verbs/cq.h"
#include "provider/verbs/scratch.h"

namespace uroce::verbs {

namespace {

using engine::Completion;

static_assert(static_cast<int>(engine::WcStatus::flush_error) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(engine::WcStatus::rnr_retry_exceeded) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(engine::WcStatus::general_error) == IBV_WC_GENERAL_ERR);
static_assert(static_cast<int>(engine::WcOpcode::local_invalidate) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(engine::WcOpcode::recv_rdma_with_imm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(Completion::kGrh == IBV_WC_GRH && Completion::kWithImm == IBV_WC_WITH_IMM &&
              Completion::kWithInvalidate == IBV_WC_WITH_INV);

void convert(const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = from.vendor_error;
  to.byte_len = from.byte_len;
  to.imm_data = from.imm_or_rkey;
  to.qp_num = from.qp_num;
  to.src_qp = from.src_qp;
  to.wc_flags = from.flags;
  to.pkey_index = 0;
  to.slid = 0;
  to.sl = 0;
  to.dlid_path_bits = 0;
}

// Takes up to `count` from the ring, a few at a time over the stack.
int drain(CompletionQueue& cq, int count, ibv_wc* out) {
  constexpr int kChunk = 16;
  Scratch<Completion, kChunk> scratch;
  Completion* const taken = scratch.data();
  const CqGuard guard(cq);
  int total = 0;
  while (total < count) {
    const int want = std::min(kChunk, count - total);
    const int got = static_cast<int>(cq.ring->poll(static_cast<uint32_t>(want), taken));
    for (int i = 0; i < got; ++i) convert(taken[i], out[total + i]);
    total += got;
    if (got < want) break;
  }
  return total;
}

}  // namespace

int poll_cq(ibv_cq* base, int count, ibv_wc* out) noexcept {
  CompletionQueue& cq = CompletionQueue::of(base);
  if (cq.owner->refused() != 0) [[unlikely]]
    return -EACCES;
  if (count <= 0) return count == 0 ? 0 : -EINVAL;
  const int found = drain(cq, count, out);
  if (found == count) {
    if (cq.due_for_progress()) cq.owner->data().progress();
    return found;
  }
  cq.owner->data().progress();
  return found + drain(cq, count - found, out + found);
}

int req_notify_cq(ibv_cq* base, int solicited_only) noexcept {
  CompletionQueue& cq = CompletionQueue::of(base);
  if (cq.owner->refused() != 0) return EACCES;
  cq.ring->arm(solicited_only != 0);
  cq.owner->data().armed();
  return 0;
}

}  // namespace uroce::verbs
