// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/engine/host.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce::test {

static engine::EngineConfig with_slot(engine::EngineConfig config, uint32_t slot) {
  config.slot = slot;
  return config;
}

Host::Host(uint32_t s, const engine::EngineConfig& config) : slot(s), engine(with_slot(config, s), memory) {
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[15] = static_cast<uint8_t>(s);
  cq = new_cq(1 << 13);
}

CompletionQueue* Host::new_cq(uint32_t capacity, bool ignore_overrun) {
  CompletionQueue* out = nullptr;
  const uint32_t id = next_cq_++;
  EXPECT_EQ(engine.create_cq(id, capacity, ignore_overrun, id, out), 0);
  return out;
}

uint32_t Host::new_key() {
  return next_key_++ << 8 | 0x5a;
}

Region Host::region(size_t bytes, uint32_t access, uint32_t pd) {
  Region region{memory.add(bytes), bytes, new_key()};
  engine::MrConfig config;
  config.key = region.key;
  config.pd = pd;
  config.iova = config.host_va = region.va;
  config.length = bytes;
  config.access = access;
  EXPECT_EQ(engine.register_mr(config), 0);
  return region;
}

engine::SharedReceiveQueue* Host::new_srq(uint32_t max_wr, bool xrc, uint32_t xrc_domain) {
  engine::SrqConfig config;
  config.srq_number = next_srq_++;
  config.pd = kPd;
  config.max_wr = max_wr;
  config.max_sge = 4;
  config.xrc = xrc;
  config.xrc_domain = xrc_domain;
  config.cq = xrc ? cq : nullptr;
  engine::SharedReceiveQueue* out = nullptr;
  EXPECT_EQ(engine.create_srq(config, out), 0);
  return out;
}

QueuePair* Host::new_qp(const QpOptions& options) {
  engine::QpConfig config;
  config.qpn = Qpn::of(slot, next_index_++);
  config.type = options.type;
  config.pd = options.pd;
  const bool sends = options.type != QpType::xrc_target;
  const bool receives = options.type != QpType::xrc_target && options.type != QpType::xrc_initiator;
  if (sends) config.send_cq = options.send_cq != nullptr ? options.send_cq : cq;
  if (receives) config.recv_cq = options.recv_cq != nullptr ? options.recv_cq : cq;
  config.srq = options.srq;
  config.xrc_domain = options.xrc_domain;
  config.signal_all = options.signal_all;
  config.capabilities = options.capabilities;
  config.user_handle = config.qpn.value();
  QueuePair* out = nullptr;
  EXPECT_EQ(engine.create_qp(config, out), 0);
  return out;
}

void Host::to_init(QueuePair* qp, const QpOptions& options) {
  engine::QpAttributes a;
  a.state = QpState::init;
  a.access_flags = options.access;
  a.qkey = options.qkey;
  const uint32_t rights = options.type == QpType::ud ? QpMask::qkey : QpMask::access_flags;
  ASSERT_EQ(engine.modify_qp(now, qp, a, QpMask::state | QpMask::pkey_index | QpMask::port | rights), 0);
}

void Host::to_rtr(QueuePair* qp, const QpOptions& options, PathId path, Qpn peer, Psn rq_psn,
                  const wire::Gid& peer_gid) {
  engine::QpAttributes a;
  a.state = QpState::rtr;
  a.path = path;
  a.path_mtu = options.mtu;
  a.dest_qpn = peer;
  a.rq_psn = rq_psn;
  a.max_dest_rd_atomic = options.max_dest_rd_atomic;
  a.min_rnr_timer = options.min_rnr_timer;
  a.local = gid;
  a.peer = peer_gid;
  uint32_t mask = QpMask::state;
  if (options.type != QpType::ud) mask |= QpMask::av | QpMask::path_mtu | QpMask::dest_qpn | QpMask::rq_psn;
  if (options.type == QpType::rc || options.type == QpType::xrc_target) {
    mask |= QpMask::max_dest_rd_atomic | QpMask::min_rnr_timer;
  }
  ASSERT_EQ(engine.modify_qp(now, qp, a, mask), 0);
}

void Host::to_rts(QueuePair* qp, const QpOptions& options, Psn sq_psn) {
  engine::QpAttributes a;
  a.state = QpState::rts;
  a.sq_psn = sq_psn;
  a.timeout = options.timeout;
  a.retry_cnt = options.retry_cnt;
  a.rnr_retry = options.rnr_retry;
  a.max_rd_atomic = options.max_rd_atomic;
  uint32_t mask = QpMask::state | QpMask::sq_psn;
  if (options.type == QpType::rc || options.type == QpType::xrc_initiator) {
    mask |= QpMask::timeout | QpMask::retry_cnt | QpMask::rnr_retry | QpMask::max_qp_rd_atomic;
  }
  if (options.type == QpType::xrc_target) mask |= QpMask::timeout;
  ASSERT_EQ(engine.modify_qp(now, qp, a, mask), 0);
}

int Host::modify(QueuePair* qp, QpState state) {
  engine::QpAttributes a;
  a.state = state;
  return engine.modify_qp(now, qp, a, QpMask::state);
}

int Host::post(QueuePair* qp, const SendRequest& r) {
  const int error = qp->post_send(r);
  if (error == 0) engine.ring(qp);
  return error;
}

int Host::receive(QueuePair* qp, uint64_t wr_id, std::vector<SgEntry> sges) {
  const int error = qp->post_recv({wr_id, sges});
  if (error == 0 && qp->state() == QpState::error) engine.ring(qp);
  return error;
}

int Host::receive(engine::SharedReceiveQueue* srq, uint64_t wr_id, std::vector<SgEntry> sges) {
  return srq->post_recv({wr_id, sges});
}

std::vector<Completion> Host::poll(CompletionQueue* from) {
  std::vector<Completion> all;
  Completion batch[16];
  while (const uint32_t n = from->poll(16, batch)) all.insert(all.end(), batch, batch + n);
  return all;
}

std::vector<Event> Host::events() {
  std::vector<Event> all;
  for (Event event; engine.poll_event(event);) all.push_back(event);
  return all;
}

SendRequest request(WrOpcode opcode, uint64_t wr_id, std::span<const SgEntry> sges, uint64_t remote_va,
                    uint32_t rkey) {
  SendRequest r;
  r.opcode = opcode;
  r.wr_id = wr_id;
  r.flags.signaled = true;
  r.sges = sges;
  r.remote_va = remote_va;
  r.rkey = rkey;
  return r;
}

}  // namespace uroce::test
