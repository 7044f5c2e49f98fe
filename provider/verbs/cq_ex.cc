// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Extended polling (ibv_create_cq_ex(3)): start_poll takes the lock and the first entry, next_poll the next
// one, end_poll gives the lock back. An entry is copied out, so destroying its queue pair in between does no
// harm. A start_poll that fails holds nothing.
#include <cerrno>

#include "provider/verbs/cq.h"

namespace uroce::verbs {

namespace {

void lock(CompletionQueue& cq) {
  if (!cq.single_threaded) cq.lock.lock();
}
void unlock(CompletionQueue& cq) {
  if (!cq.single_threaded) cq.lock.unlock();
}

bool take(CompletionQueue& cq) {
  if (cq.ring->poll(1, &cq.current) == 0) return false;
  cq.ex.wr_id = cq.current.wr_id;
  cq.ex.status = static_cast<ibv_wc_status>(cq.current.status);
  return true;
}

int start_poll(ibv_cq_ex* base, ibv_poll_cq_attr* attributes) noexcept {
  CompletionQueue& cq = CompletionQueue::of(base);
  if (cq.owner->refused() != 0) [[unlikely]]
    return EACCES;
  if (attributes != nullptr && attributes->comp_mask != 0) return EINVAL;
  lock(cq);
  if (take(cq)) return 0;
  unlock(cq);
  cq.owner->data().progress();
  lock(cq);
  if (take(cq)) return 0;
  unlock(cq);
  return ENOENT;
}

int next_poll(ibv_cq_ex* base) noexcept {
  CompletionQueue& cq = CompletionQueue::of(base);
  if (take(cq)) return 0;
  cq.owner->data().progress();
  return take(cq) ? 0 : ENOENT;
}

void end_poll(ibv_cq_ex* base) noexcept {
  CompletionQueue& cq = CompletionQueue::of(base);
  const bool drive = cq.due_for_progress();
  unlock(cq);
  if (drive) cq.owner->data().progress();
}

const engine::Completion& current(ibv_cq_ex* base) {
  return CompletionQueue::of(base).current;
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept {
  return static_cast<ibv_wc_opcode>(current(cq).opcode);
}
uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept {
  return current(cq).vendor_error;
}
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept {
  return current(cq).flags;
}
uint32_t read_byte_len(ibv_cq_ex* cq) noexcept {
  return current(cq).byte_len;
}
__be32 read_imm_data(ibv_cq_ex* cq) noexcept {
  return current(cq).imm_or_rkey;
}
uint32_t read_qp_num(ibv_cq_ex* cq) noexcept {
  return current(cq).qp_num;
}
uint32_t read_src_qp(ibv_cq_ex* cq) noexcept {
  return current(cq).src_qp;
}
uint64_t read_completion_ts(ibv_cq_ex* cq) noexcept {
  return current(cq).timestamp_ns;
}
uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) noexcept {
  return current(cq).timestamp_ns + static_cast<uint64_t>(CompletionQueue::of(cq).wallclock_offset_ns);
}
// Ethernet has no LIDs, and the service level is not on the wire.
uint32_t read_slid(ibv_cq_ex*) noexcept {
  return 0;
}
uint8_t read_sl(ibv_cq_ex*) noexcept {
  return 0;
}
uint8_t read_dlid_path_bits(ibv_cq_ex*) noexcept {
  return 0;
}

}  // namespace

void install_extended_polling(CompletionQueue& cq, uint64_t wc_flags) {
  ibv_cq_ex& ex = cq.ex;
  ex.start_poll = start_poll;
  ex.next_poll = next_poll;
  ex.end_poll = end_poll;
  ex.read_opcode = read_opcode;
  ex.read_vendor_err = read_vendor_err;
  ex.read_wc_flags = read_wc_flags;
  if ((wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0) ex.read_byte_len = read_byte_len;
  if ((wc_flags & IBV_WC_EX_WITH_IMM) != 0) ex.read_imm_data = read_imm_data;
  if ((wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0) ex.read_qp_num = read_qp_num;
  if ((wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0) ex.read_src_qp = read_src_qp;
  if ((wc_flags & IBV_WC_EX_WITH_SLID) != 0) ex.read_slid = read_slid;
  if ((wc_flags & IBV_WC_EX_WITH_SL) != 0) ex.read_sl = read_sl;
  if ((wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0) ex.read_dlid_path_bits = read_dlid_path_bits;
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0) ex.read_completion_ts = read_completion_ts;
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0) {
    ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
  }
}

}  // namespace uroce::verbs
