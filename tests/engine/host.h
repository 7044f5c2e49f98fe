// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One engine with its program's memory, and short words for what tests do with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "provider/engine/engine.h"
#include "tests/engine/host_memory.h"

namespace uroce::test {

using engine::Access;
using engine::Completion;
using engine::CompletionQueue;
using engine::Event;
using engine::PathId;
using engine::PathMtu;
using engine::QpMask;
using engine::QpState;
using engine::QpType;
using engine::QueuePair;
using engine::RecvRequest;
using engine::SendRequest;
using engine::SgEntry;
using engine::Time;
using engine::WcOpcode;
using engine::WcStatus;
using engine::WrOpcode;
using wire::Opcode;
using wire::Psn;
using wire::Qpn;

inline constexpr uint32_t kPd = 7;
inline constexpr uint32_t kAllAccess = Access::local_write | Access::remote_write | Access::remote_read |
                                       Access::remote_atomic | Access::window_bind | Access::flush_global |
                                       Access::flush_persistent;

struct Region {
  uint64_t va = 0;
  uint64_t length = 0;
  uint32_t key = 0;
  SgEntry sge() const { return {va, static_cast<uint32_t>(length), key}; }
  SgEntry sge(uint64_t offset, uint32_t bytes) const { return {va + offset, bytes, key}; }
};

struct QpOptions {
  QpType type = QpType::rc;
  PathMtu mtu = PathMtu::mtu_1024;
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  // 0.64 ms
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  uint32_t access = kAllAccess;
  uint32_t qkey = 0x11111111;
  uint32_t pd = kPd;
  bool signal_all = true;
  engine::QpCapabilities capabilities{128, 128, 8, 8, 256};
  engine::SharedReceiveQueue* srq = nullptr;
  uint32_t xrc_domain = 0;
  CompletionQueue* send_cq = nullptr;  // null: the host's own
  CompletionQueue* recv_cq = nullptr;
};

class Host {
 public:
  Host(uint32_t slot, const engine::EngineConfig& config);

  // ---- objects ------------------------------------------------------------------------------------
  CompletionQueue* new_cq(uint32_t capacity, bool ignore_overrun = false);
  Region region(size_t bytes, uint32_t access = kAllAccess, uint32_t pd = kPd);
  uint32_t new_key();
  QueuePair* new_qp(const QpOptions& options);
  engine::SharedReceiveQueue* new_srq(uint32_t max_wr, bool xrc = false, uint32_t xrc_domain = 0);
  // Each step of the way up; every one must succeed.
  void to_init(QueuePair* qp, const QpOptions& options);
  void to_rtr(QueuePair* qp, const QpOptions& options, PathId path, Qpn peer, Psn rq_psn,
              const wire::Gid& peer_gid);
  void to_rts(QueuePair* qp, const QpOptions& options, Psn sq_psn);
  int modify(QueuePair* qp, QpState state);

  // ---- work ---------------------------------------------------------------------------------------
  int post(QueuePair* qp, const SendRequest& request);
  int receive(QueuePair* qp, uint64_t wr_id, std::vector<SgEntry> sges = {});
  int receive(engine::SharedReceiveQueue* srq, uint64_t wr_id, std::vector<SgEntry> sges = {});
  std::vector<Completion> poll() { return poll(cq); }
  std::vector<Completion> poll(CompletionQueue* from);
  std::vector<Event> events();

  uint64_t drops(engine::PacketDrop reason) const {
    return engine.counters().drops[static_cast<size_t>(reason)];
  }

  uint32_t slot;
  wire::Gid gid;
  HostMemory memory;
  engine::Engine engine;
  Time now{1'000'000'000};
  CompletionQueue* cq = nullptr;

 private:
  uint32_t next_cq_ = 1;
  uint32_t next_index_ = 16;
  uint32_t next_key_ = 1;
  uint32_t next_srq_ = 100;
};

// ---- requests -------------------------------------------------------------------------------------
// The lists they point to live as long as the static storage they were given.
SendRequest request(WrOpcode opcode, uint64_t wr_id, std::span<const SgEntry> sges = {},
                    uint64_t remote_va = 0, uint32_t rkey = 0);

}  // namespace uroce::test
