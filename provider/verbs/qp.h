// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Queue pairs. `send_lock` and `recv_lock` make a posting thread the one producer of the engine's rings.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <mutex>
#include <vector>

#include "provider/engine/queue_pair.h"
#include "provider/verbs/context.h"
#include "provider/verbs/private_abi.h"
#include "provider/verbs/spin_lock.h"

namespace uroce::verbs {

struct CompletionQueue;
struct QueuePair;
struct ProtectionDomain;
class WrBatch;

// What all handles of one queue pair share; only an XRC target can have several (ibv_open_qp).
struct QpShared {
  std::mutex control;   // modify, query, multicast: one at a time; guards what follows
  engine::PathId path;  // of the address vector, ours to release
  ibv_ah_attr ah_attr{};
  std::vector<wire::Gid> groups;  // attached to
  uint32_t handles = 1;           // guarded by the context's XRC table
  // Events name the handle that created the queue pair, so its memory stays as long as any handle.
  std::unique_ptr<QueuePair> creator;
};

struct QueuePair {
  union {
    ibv_qp base;
    ibv_qp_ex ex;
    std::byte area[abi::kQpAreaBytes];  // what libibverbs of any version looks at
  };
  ContextUse use;
  Context* owner = nullptr;
  engine::QueuePair* queue = nullptr;
  engine::QpType type = engine::QpType::rc;
  bool signal_all = false;
  bool created = true;  // false: a further handle, by ibv_open_qp
  uint32_t xrc_domain = 0;
  ibv_qp_cap cap{};
  std::shared_ptr<QpShared> shared;
  std::unique_ptr<WrBatch> batch;  // of the extended post verbs

  alignas(64) SpinLock send_lock;
  alignas(64) SpinLock recv_lock;

  QueuePair();
  ~QueuePair();
  static QueuePair& of(ibv_qp* qp) { return *reinterpret_cast<QueuePair*>(qp); }
  static QueuePair& of(ibv_qp_ex* qp) { return *reinterpret_cast<QueuePair*>(qp); }
  CompletionQueue* send_cq() const;  // null where there is none
  CompletionQueue* recv_cq() const;
};

// qp.cc
int destroy_command(QueuePair& qp, ib_uverbs_destroy_qp_resp& response);
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);
// EBUSY while attached to a multicast group; waits until every event that was delivered has been
// acknowledged.
int destroy_qp(ibv_qp* qp);

// qp_modify.cc
int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init);

// send.cc, recv.cc: a positive errno and *bad_wr at the first request that was not taken.
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;

// qp_ex.cc: the extended post verbs that `send_ops_flags` ask for. 0, EOPNOTSUPP for one that the type or the
// library has not.
int install_extended_posting(QueuePair& qp, uint64_t send_ops_flags);

// mcast.cc
int attach_mcast(ibv_qp* qp, const ibv_gid* group, uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* group, uint16_t lid);

}  // namespace uroce::verbs
