// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Completion queues: creation and the two ways of polling. `lock` makes the polling thread the ring's one
// consumer.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>

#include "provider/engine/completion_queue.h"
#include "provider/verbs/context.h"
#include "provider/verbs/spin_lock.h"

namespace uroce::verbs {

constexpr uint32_t kPollsBetweenProgress = 8;

struct CompletionQueue {
  union {
    ibv_cq base;  // the library fills context, channel, cq_context, mutex, cond after creation
    ibv_cq_ex ex;
  };
  RecursiveSpinLock lock;
  bool single_threaded = false;  // the program takes care that one thread polls at a time
  bool extended = false;
  // Polls that found enough without driving the engine; near enough is good enough.
  std::atomic<uint32_t> busy_polls{0};
  ContextUse use;
  Context* owner = nullptr;
  engine::CompletionQueue* ring = nullptr;
  engine::Completion
      current;  // extended polling: the entry between start_poll or next_poll and the next call
  int64_t wallclock_offset_ns = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC at creation

  CompletionQueue() : ex{} {}
  // A program that never empties its CQ drives the engine as well, once in so many polls.
  bool due_for_progress() {
    const uint32_t polls = busy_polls.load(std::memory_order_relaxed) + 1;
    busy_polls.store(polls, std::memory_order_relaxed);
    return polls % kPollsBetweenProgress == 0;
  }
  static CompletionQueue& of(ibv_cq* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
  static CompletionQueue& of(ibv_cq_ex* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
};

// Holds the lock unless the CQ was created SINGLE_THREADED.
class CqGuard {
 public:
  explicit CqGuard(CompletionQueue& cq) : cq_(cq) {
    if (!cq_.single_threaded) cq_.lock.lock();
  }
  ~CqGuard() {
    if (!cq_.single_threaded) cq_.lock.unlock();
  }
  CqGuard(const CqGuard&) = delete;

 private:
  CompletionQueue& cq_;
};

// Both CQs of a queue pair, in an order that all threads keep; one of them may be null or both the same.
class CqPairGuard {
 public:
  CqPairGuard(CompletionQueue* a, CompletionQueue* b);
  ~CqPairGuard();
  CqPairGuard(const CqPairGuard&) = delete;

 private:
  CompletionQueue* first_;
  CompletionQueue* second_;
};

ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel, int comp_vector);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);
int resize_cq(ibv_cq* cq, int entries);
// Event moderation (ibv_modify_cq(3)), the data path's own matter. EOPNOTSUPP: another attribute.
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attributes);
constexpr uint16_t kMaxModeration = UINT16_MAX;  // completions, and microseconds
// EBUSY while in use; waits until every event that was delivered has been acknowledged.
int destroy_cq(ibv_cq* cq);

// cq_poll.cc
int poll_cq(ibv_cq* cq, int count, ibv_wc* out) noexcept;
int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;

// cq_ex.cc: fills the function pointers that `wc_flags` ask for.
void install_extended_polling(CompletionQueue& cq, uint64_t wc_flags);
constexpr uint64_t kSupportedWcFlags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                                       IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
                                       IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

}  // namespace uroce::verbs
