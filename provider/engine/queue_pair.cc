// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Posting: the checks that need no lane, and the copy into the ring.
#include "provider/engine/queue_pair.h"

#include <cerrno>
#include <cstring>

#include "provider/engine/qp.h"

namespace uroce::engine {

namespace {

constexpr uint32_t bit(QpType type) {
  return 1u << static_cast<uint32_t>(type);
}
constexpr uint32_t kReliable = bit(QpType::rc) | bit(QpType::xrc_initiator);
constexpr uint32_t kConnected = kReliable | bit(QpType::uc);

// What may be posted where (ibv_post_send(3)), and what it carries.
struct OpcodeRule {
  uint32_t types;
  bool may_inline;
  bool local_gather;  // takes its gather list's bytes as the message
};
constexpr OpcodeRule kRules[] = {
    /* send             */ {kConnected | bit(QpType::ud), true, true},
    /* send_imm         */ {kConnected | bit(QpType::ud), true, true},
    /* send_invalidate  */ {kReliable, true, true},
    /* write            */ {kConnected, true, true},
    /* write_imm        */ {kConnected, true, true},
    /* read             */ {kReliable, false, true},
    /* compare_swap     */ {kReliable, false, true},
    /* fetch_add        */ {kReliable, false, true},
    /* local_invalidate */ {kConnected, false, false},
    /* bind_window      */ {kConnected, false, false},
    /* flush            */ {kReliable, false, false},
    /* atomic_write     */ {kReliable, false, false},
};

bool is_atomic(WrOpcode opcode) {
  return opcode == WrOpcode::compare_swap || opcode == WrOpcode::fetch_add;
}

// Bytes of the message, in 64 bits: a sum just above 4 GiB must not look small.
uint64_t message_bytes(const SendRequest& request) {
  uint64_t bytes = 0;
  if (request.flags.inline_data) {
    for (const auto& part : request.inline_parts) bytes += part.size();
  } else {
    for (const SgEntry& sge : request.sges) bytes += sge.length;
  }
  return bytes;
}

void fill_operands(const SendRequest& request, SendWqe& wqe) {
  switch (request.opcode) {
    case WrOpcode::compare_swap:
    case WrOpcode::fetch_add:
    case WrOpcode::atomic_write: wqe.atomic = {request.compare, request.swap_or_add}; break;
    case WrOpcode::bind_window:
      wqe.bind = {request.bind.window_rkey, request.bind.new_rkey, request.bind.region_lkey,
                  request.bind.access,      request.bind.va,       request.bind.length};
      break;
    case WrOpcode::flush:
      wqe.flush = {request.flush_placement, request.flush_selectivity, request.flush_length};
      break;
    default: wqe.datagram = {request.ud_path, request.ud_qpn, request.ud_qkey}; break;
  }
}

void fill(const SendRequest& request, uint64_t bytes, bool with_list, SendWqe& wqe) {
  wqe.wr_id = request.wr_id;
  wqe.opcode = request.opcode;
  wqe.signaled = request.flags.signaled;
  wqe.solicited = request.flags.solicited;
  wqe.fence = request.flags.fence;
  wqe.inline_data = request.flags.inline_data;
  wqe.num_sge = 0;
  wqe.length = static_cast<uint32_t>(bytes);
  const bool invalidates =
      request.opcode == WrOpcode::send_invalidate || request.opcode == WrOpcode::local_invalidate;
  wqe.imm_be = invalidates ? request.invalidate_rkey : request.imm_be;
  wqe.rkey = request.rkey;
  wqe.remote_va = request.remote_va;
  wqe.xrc_srqn = request.xrc_srqn;
  wqe.packets = wqe.done_packets = wqe.chunk = 0;
  fill_operands(request, wqe);
  if (request.flags.inline_data) {
    std::byte* out = wqe.inline_bytes();
    for (const auto& part : request.inline_parts) {
      if (part.empty()) continue;
      std::memcpy(out, part.data(), part.size());
      out += part.size();
    }
  } else if (with_list) {
    for (const SgEntry& sge : request.sges) {
      if (sge.length != 0) wqe.sges()[wqe.num_sge++] = sge;  // an empty one needs no key
    }
  }
}

// Everything but room in the queue. `bytes`: of the message.
int check(const QueuePair::Impl& qp, QpState now, const SendRequest& request, uint64_t& bytes) {
  if (static_cast<size_t>(request.opcode) >= std::size(kRules) || !qp.has_requester()) return EINVAL;
  const OpcodeRule& rule = kRules[static_cast<size_t>(request.opcode)];
  if ((rule.types & bit(qp.config.type)) == 0) return EINVAL;
  if (now == QpState::reset || now == QpState::init || now == QpState::rtr) return EINVAL;
  bytes = 0;
  if (request.flags.inline_data) {
    if (!rule.may_inline) return EINVAL;
    bytes = message_bytes(request);
    if (bytes > qp.config.capabilities.max_inline) return EINVAL;
  } else if (rule.local_gather) {
    if (request.sges.size() > qp.config.capabilities.max_send_sge) return EINVAL;
    bytes = message_bytes(request);
    if (bytes > kMaxMessage) return EINVAL;
    if (is_atomic(request.opcode) && bytes < 8) return EINVAL;
  }
  if (qp.config.type == QpType::ud &&
      (bytes > qp.port_mtu_bytes.load(std::memory_order_relaxed) || request.ud_path == PathId{})) {
    return EINVAL;
  }
  return 0;
}

}  // namespace

int QueuePair::check_send(const SendRequest& request, uint32_t ahead) const {
  uint64_t bytes = 0;
  if (const int error = check(*impl_, state(), request, bytes); error != 0) return error;
  const SlotRing& ring = impl_->send_queue.ring();
  return ring.full(ahead) ? ENOMEM : 0;
}

int QueuePair::post_send(const SendRequest& request) {
  Impl& qp = *impl_;
  uint64_t bytes = 0;
  if (const int error = check(qp, state(), request, bytes); error != 0) return error;
  SlotRing& ring = qp.send_queue.ring();
  if (ring.full()) return ENOMEM;
  fill(request, bytes, kRules[static_cast<size_t>(request.opcode)].local_gather,
       *static_cast<SendWqe*>(ring.next_slot()));
  ring.publish();
  return 0;
}

int QueuePair::post_recv(const RecvRequest& request) {
  Impl& qp = *impl_;
  if (!qp.receive_queue || state() == QpState::reset) return EINVAL;
  return qp.receive_queue->post(request);
}

wire::Qpn QueuePair::qpn() const {
  return impl_->config.qpn;
}
QpType QueuePair::type() const {
  return impl_->config.type;
}
QpState QueuePair::state() const {
  return static_cast<QpState>(impl_->published_state.load(std::memory_order_seq_cst));
}

static wire::Service service_of(QpType type) {
  switch (type) {
    case QpType::uc: return wire::Service::uc;
    case QpType::ud: return wire::Service::ud;
    case QpType::xrc_initiator:
    case QpType::xrc_target: return wire::Service::xrc;
    case QpType::rc: break;
  }
  return wire::Service::rc;
}

QueuePair::Impl::Impl(const QpConfig& c, const std::atomic<uint32_t>& port_mtu)
    : config(c),
      port_mtu_bytes(port_mtu),
      service(service_of(c.type)),
      send_queue(has_requester() ? c.capabilities.max_send_wr : 0, c.capabilities.max_send_sge,
                 c.capabilities.max_inline) {
  impl_ = this;
  const bool own_receives =
      c.srq == nullptr && c.type != QpType::xrc_initiator && c.type != QpType::xrc_target;
  if (own_receives) receive_queue.emplace(c.capabilities.max_recv_wr, c.capabilities.max_recv_sge);
}

}  // namespace uroce::engine
