// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The extended post verbs (ibv_wr_post(3)). start takes the send lock, complete and abort give it back.
#include <cerrno>
#include <cstring>

#include "provider/verbs/ah.h"
#include "provider/verbs/library.h"
#include "provider/verbs/mw.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/work_opcode.h"
#include "provider/verbs/wr_batch.h"

namespace uroce::verbs {

namespace {

using engine::SendRequest;
using engine::WrOpcode;

// Function pointers and flags that headers before rdma-core 45 lack.
constexpr uint64_t kWithFlush = 1 << 11;
using WrFlush = void(ibv_qp_ex*, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t type,
                     uint8_t level);
using WrAtomicWrite = void(ibv_qp_ex*, uint32_t rkey, uint64_t remote_addr, const void* word);

WrBatch& batch_of(ibv_qp_ex* qp) {
  return *QueuePair::of(qp).batch;
}
SendRequest& begin(ibv_qp_ex* qp, WrOpcode opcode) {
  return batch_of(qp).begin(opcode, qp->wr_id, qp->wr_flags);
}

SendRequest& begin_remote(ibv_qp_ex* qp, WrOpcode opcode, uint32_t rkey, uint64_t address) {
  SendRequest& request = begin(qp, opcode);
  request.rkey = rkey;
  request.remote_va = address;
  return request;
}

void start(ibv_qp_ex* base) noexcept {
  QueuePair& qp = QueuePair::of(base);
  qp.send_lock.lock();
  qp.batch->start();
  if (int error = qp.owner->refused(); error != 0) qp.batch->refuse(error);
}

int complete(ibv_qp_ex* base) noexcept {
  QueuePair& qp = QueuePair::of(base);
  const int error = qp.batch->submit(*qp.queue);
  const bool posted = error == 0 && !qp.batch->empty();
  qp.send_lock.unlock();
  if (posted) qp.owner->data().posted(qp.queue);
  return error;
}

void abort(ibv_qp_ex* base) noexcept {
  QueuePair::of(base).send_lock.unlock();
}

// ---- builders
// ----------------------------------------------------------------------------------------------------

void wr_send(ibv_qp_ex* qp) noexcept {
  begin(qp, WrOpcode::send);
}
void wr_send_imm(ibv_qp_ex* qp, __be32 imm) noexcept {
  begin(qp, WrOpcode::send_imm).imm_be = imm;
}
void wr_send_inv(ibv_qp_ex* qp, uint32_t rkey) noexcept {
  begin(qp, WrOpcode::send_invalidate).invalidate_rkey = rkey;
}
void wr_local_inv(ibv_qp_ex* qp, uint32_t rkey) noexcept {
  begin(qp, WrOpcode::local_invalidate).invalidate_rkey = rkey;
}
void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) noexcept {
  begin_remote(qp, WrOpcode::read, rkey, address);
}
void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) noexcept {
  begin_remote(qp, WrOpcode::write, rkey, address);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 imm) noexcept {
  begin_remote(qp, WrOpcode::write_imm, rkey, address).imm_be = imm;
}
void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare,
                       uint64_t swap) noexcept {
  SendRequest& request = begin_remote(qp, WrOpcode::compare_swap, rkey, address);
  request.compare = compare;
  request.swap_or_add = swap;
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t add) noexcept {
  begin_remote(qp, WrOpcode::fetch_add, rkey, address).swap_or_add = add;
}
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
  SendRequest& request = begin(qp, WrOpcode::bind_window);
  if (!describe_bind(mw, rkey, *info, request.bind)) batch_of(qp).refuse(EINVAL);
}
void wr_atomic_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, const void* word) noexcept {
  begin_remote(qp, WrOpcode::atomic_write, rkey, address).swap_or_add = read_atomic_word(word);
}
void wr_flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type,
              uint8_t level) noexcept {
  SendRequest& request = begin_remote(qp, WrOpcode::flush, rkey, address);
  request.flush_placement = type;
  request.flush_selectivity = level;
  request.flush_length = static_cast<uint32_t>(length);
  if (length > UINT32_MAX) batch_of(qp).refuse(EINVAL);
}

// ---- setters
// -----------------------------------------------------------------------------------------------------

void set_ud_addr(ibv_qp_ex* qp, ibv_ah* base, uint32_t remote_qpn, uint32_t remote_qkey) noexcept {
  SendRequest& request = batch_of(qp).current();
  const AddressHandle& ah = AddressHandle::of(base);
  request.ud_path = ah.path;
  request.ud_multicast = ah.multicast;
  request.ud_qpn = wire::Qpn(remote_qpn);
  request.ud_qkey = remote_qkey;
}
void set_xrc_srqn(ibv_qp_ex* qp, uint32_t remote_srqn) noexcept {
  batch_of(qp).current().xrc_srqn = remote_srqn;
}
void set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) noexcept {
  const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
  batch_of(qp).set_list(&sge, 1);
}
void set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* list) noexcept {
  batch_of(qp).set_list(list, count);
}
void set_inline_data(ibv_qp_ex* qp, void* address, size_t length) noexcept {
  batch_of(qp).begin_inline();
  batch_of(qp).add_inline(address, length);
}
void set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) noexcept {
  batch_of(qp).begin_inline();
  for (size_t i = 0; i < count; ++i) batch_of(qp).add_inline(list[i].addr, list[i].length);
}

// ---- what each type has
// ------------------------------------------------------------------------------------------

constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr uint64_t kWindows = IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
constexpr uint64_t kReliable = kSends | kWrites | kWindows | IBV_QP_EX_WITH_SEND_WITH_INV |
                               IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                               IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | kWithFlush | IBV_QP_EX_WITH_ATOMIC_WRITE;

uint64_t supported(engine::QpType type) {
  switch (type) {
    case engine::QpType::rc:
    case engine::QpType::xrc_initiator: return kReliable;
    case engine::QpType::uc: return kSends | kWrites | kWindows;
    case engine::QpType::ud: return kSends;
    case engine::QpType::xrc_target: break;
  }
  return 0;
}

template <typename F>
void install_at(QueuePair& qp, size_t offset, F* function) {
  std::memcpy(qp.area + offset, &function, sizeof(function));
}

void install_builders(QueuePair& qp, uint64_t flags) {
  ibv_qp_ex& ex = qp.ex;
  const auto asked = [flags](uint64_t flag) { return (flags & flag) != 0; };
  if (asked(IBV_QP_EX_WITH_SEND)) ex.wr_send = wr_send;
  if (asked(IBV_QP_EX_WITH_SEND_WITH_IMM)) ex.wr_send_imm = wr_send_imm;
  if (asked(IBV_QP_EX_WITH_SEND_WITH_INV)) ex.wr_send_inv = wr_send_inv;
  if (asked(IBV_QP_EX_WITH_RDMA_WRITE)) ex.wr_rdma_write = wr_rdma_write;
  if (asked(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)) ex.wr_rdma_write_imm = wr_rdma_write_imm;
  if (asked(IBV_QP_EX_WITH_RDMA_READ)) ex.wr_rdma_read = wr_rdma_read;
  if (asked(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)) ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  if (asked(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)) ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
  if (asked(IBV_QP_EX_WITH_LOCAL_INV)) ex.wr_local_inv = wr_local_inv;
  if (asked(IBV_QP_EX_WITH_BIND_MW)) ex.wr_bind_mw = wr_bind_mw;
  if (asked(IBV_QP_EX_WITH_ATOMIC_WRITE))
    install_at<WrAtomicWrite>(qp, abi::kWrAtomicWriteOffset, wr_atomic_write);
  if (asked(kWithFlush)) install_at<WrFlush>(qp, abi::kWrFlushOffset, wr_flush);
}

}  // namespace

int install_extended_posting(QueuePair& qp, uint64_t send_ops_flags) {
  const uint32_t mask_offset = library().qp_comp_mask_offset;
  // A library whose ibv_qp_ex ends before a function pointer cannot call it.
  if ((send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0 && mask_offset <= abi::kWrAtomicWriteOffset)
    return EOPNOTSUPP;
  if ((send_ops_flags & kWithFlush) != 0 && mask_offset <= abi::kWrFlushOffset) return EOPNOTSUPP;
  if ((send_ops_flags & ~supported(qp.type)) != 0) return EOPNOTSUPP;
  qp.batch = std::make_unique<WrBatch>(qp.cap);
  ibv_qp_ex& ex = qp.ex;
  ex.wr_start = start;
  ex.wr_complete = complete;
  ex.wr_abort = abort;
  ex.wr_set_sge = set_sge;
  ex.wr_set_sge_list = set_sge_list;
  ex.wr_set_inline_data = set_inline_data;
  ex.wr_set_inline_data_list = set_inline_data_list;
  if (qp.type == engine::QpType::ud) ex.wr_set_ud_addr = set_ud_addr;
  if (qp.type == engine::QpType::xrc_initiator) ex.wr_set_xrc_srqn = set_xrc_srqn;
  install_builders(qp, send_ops_flags);
  uint32_t mask = 0;
  std::memcpy(&mask, qp.area + mask_offset, sizeof(mask));
  mask |= abi::kQpMaskEx;
  std::memcpy(qp.area + mask_offset, &mask, sizeof(mask));
  return 0;
}

}  // namespace uroce::verbs
