// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_post_send: each request is translated on the stack and copied once, into the engine's ring.
#include <cerrno>
#include <mutex>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/mw.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/scratch.h"
#include "provider/verbs/work_opcode.h"

namespace uroce::verbs {

namespace {

using engine::SendRequest;
using engine::SgEntry;
using engine::WrOpcode;

// Where the spans of a request point to.
struct Lists {
  Scratch<SgEntry, UROCE_MAX_SGE> sges;
  Scratch<std::span<const std::byte>, UROCE_MAX_SGE> parts;
};

void take_list(const ibv_send_wr& from, Lists& lists, SendRequest& to) {
  const auto count = static_cast<size_t>(from.num_sge);
  if (to.flags.inline_data) {
    std::span<const std::byte>* const parts = lists.parts.data();
    for (size_t i = 0; i < count; ++i) {
      const ibv_sge& sge = from.sg_list[i];
      parts[i] = {reinterpret_cast<const std::byte*>(sge.addr), sge.length};
    }
    to.inline_parts = {parts, count};
    return;
  }
  SgEntry* const sges = lists.sges.data();
  for (size_t i = 0; i < count; ++i) {
    sges[i] = {from.sg_list[i].addr, from.sg_list[i].length, from.sg_list[i].lkey};
  }
  to.sges = {sges, count};
}

// The operands of the opcode. False: they are not there.
bool take_operands(QueuePair& qp, const ibv_send_wr& from, SendRequest& to) {
  switch (to.opcode) {
    case WrOpcode::write:
    case WrOpcode::write_imm:
    case WrOpcode::read:
    case WrOpcode::atomic_write:
      to.remote_va = from.wr.rdma.remote_addr;
      to.rkey = from.wr.rdma.rkey;
      break;
    case WrOpcode::compare_swap:
      to.compare = from.wr.atomic.compare_add;
      to.swap_or_add = from.wr.atomic.swap;
      to.remote_va = from.wr.atomic.remote_addr;
      to.rkey = from.wr.atomic.rkey;
      break;
    case WrOpcode::fetch_add:
      to.swap_or_add = from.wr.atomic.compare_add;
      to.remote_va = from.wr.atomic.remote_addr;
      to.rkey = from.wr.atomic.rkey;
      break;
    case WrOpcode::bind_window:
      return describe_bind(from.bind_mw.mw, from.bind_mw.rkey, from.bind_mw.bind_info, to.bind);
    case WrOpcode::send_invalidate:
    case WrOpcode::local_invalidate: to.invalidate_rkey = from.invalidate_rkey; break;
    case WrOpcode::send:
    case WrOpcode::send_imm:
    case WrOpcode::flush: break;
  }
  if (from.opcode == IBV_WR_SEND_WITH_IMM || from.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
    to.imm_be = from.imm_data;
  if (qp.type == engine::QpType::xrc_initiator) to.xrc_srqn = from.qp_type.xrc.remote_srqn;
  if (qp.type == engine::QpType::ud) {
    if (from.wr.ud.ah == nullptr) return false;
    const AddressHandle& ah = AddressHandle::of(from.wr.ud.ah);
    to.ud_path = ah.path;
    to.ud_multicast = ah.multicast;
    to.ud_qpn = wire::Qpn(from.wr.ud.remote_qpn);
    to.ud_qkey = from.wr.ud.remote_qkey;
  }
  return true;
}

// An atomic write takes its 8 bytes from the list, at the time of posting.
bool take_atomic_word(const ibv_send_wr& from, SendRequest& to) {
  if (from.num_sge != 1 || from.sg_list[0].length != sizeof(uint64_t) || !to.flags.inline_data) return false;
  to.swap_or_add = read_atomic_word(reinterpret_cast<const void*>(from.sg_list[0].addr));
  to.flags.inline_data = false;
  return true;
}

int post_one(QueuePair& qp, const ibv_send_wr& from) {
  SendRequest to;
  if (!engine_opcode(from.opcode, to.opcode)) return EINVAL;
  if (from.num_sge < 0 || static_cast<uint32_t>(from.num_sge) > qp.cap.max_send_sge) return EINVAL;
  to.wr_id = from.wr_id;
  to.flags = engine_flags(from.send_flags);
  if (!take_operands(qp, from, to)) return EINVAL;
  if (to.opcode == WrOpcode::atomic_write) {
    if (!take_atomic_word(from, to)) return EINVAL;
    return qp.queue->post_send(to);
  }
  Lists lists;
  take_list(from, lists, to);
  return qp.queue->post_send(to);
}

}  // namespace

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
  QueuePair& qp = QueuePair::of(base);
  int error = qp.owner->refused();
  bool posted = false;
  {
    const std::lock_guard guard(qp.send_lock);
    for (; wr != nullptr && error == 0; wr = error == 0 ? wr->next : wr) {
      error = post_one(qp, *wr);
      posted |= error == 0;
    }
  }
  if (posted) qp.owner->data().posted(qp.queue);
  if (error != 0) *bad_wr = wr;
  return error;
}

}  // namespace uroce::verbs
