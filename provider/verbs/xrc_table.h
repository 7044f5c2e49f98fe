// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What handles of one context share in XRC: domains opened on the same inode, and target queue pairs that
// several handles name.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "provider/engine/queue_pair.h"

namespace uroce::verbs {

struct QueuePair;
struct QpShared;

class XrcTable {
 public:
  // The number that queue pairs and SRQs of one domain are compared by. Each enter needs one leave.
  uint32_t enter_domain(dev_t device, ino_t inode);
  uint32_t enter_private_domain();
  void leave_domain(uint32_t number);

  void add_target(QueuePair& qp);
  // Fills queue and shared of another handle. False: no such target in the domain.
  bool join_target(QueuePair& handle, uint32_t qpn, uint32_t domain);
  // True: it was the last handle; the target is no longer found.
  bool leave_target(QueuePair& qp);
  // A handle has been destroyed. Gives back what may be freed besides: events name the handle that created
  // the queue pair, so that one stays until the last goes.
  std::unique_ptr<QueuePair> keep_creator(std::unique_ptr<QueuePair>& handle, bool last);

 private:
  struct Domain {
    bool shared = false;
    dev_t device = 0;
    ino_t inode = 0;
    uint32_t opens = 0;
  };
  struct Target {
    engine::QueuePair* queue = nullptr;
    std::shared_ptr<QpShared> shared;
    uint32_t domain = 0;
  };
  std::mutex lock_;
  uint32_t last_number_ = 0;
  std::map<uint32_t, Domain> domains_;
  std::map<uint32_t, Target> targets_;  // by QPN
};

}  // namespace uroce::verbs
