// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Completion queue: a ring with one producer (the engine, under the lane) and one consumer (a polling thread,
// under the CQ's own lock, which the verbs layer holds). Ownership makes it lock-free.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "provider/engine/work.h"

namespace uroce::engine {

class CompletionQueue {
 public:
  // `capacity` >= 1 completions can be held. `id` is the control plane's (kicks name it).
  CompletionQueue(uint32_t id, uint32_t capacity, bool ignore_overrun);
  ~CompletionQueue();

  // ---- consumer side ----------------------------------------------------------------------------
  uint32_t poll(uint32_t n, Completion* out);
  // Oldest completion or nullptr; stays until consume().
  const Completion* peek() const;
  void consume();
  // Drops unpolled completions of this QP, keeps the order of the rest. Needs lane and consumer lock.
  void purge(uint32_t qp_num, uint32_t srq_number = 0);
  // Needs lane and consumer lock. EINVAL when more than `capacity` completions wait, ENOMEM.
  int resize(uint32_t capacity);

  // ---- any thread -------------------------------------------------------------------------------
  // Arms one notification: for the next completion, or the next solicited or failed one. arm(false) widens,
  // arm(true) never narrows a pending arm(false). A completion added after the call yields exactly one Event,
  // one that was there before none.
  void arm(bool solicited_only);
  bool empty() const;
  uint32_t id() const { return id_; }
  uint32_t capacity() const { return capacity_; }

  // ---- engine side ------------------------------------------------------------------------------
  // False: overrun (the completion is lost; the caller raises the CQ error). `notify` is set when an armed
  // notification fires.
  bool push(const Completion& completion, bool solicited, bool& notify);
  bool overrun() const { return overrun_; }
  // A notification fires for the `count`th completion that would have fired it, or when the queue is full, or
  // at the first failed one. `count` 1: no moderation.
  void moderate(uint32_t count) { moderation_ = count; }
  uint32_t held() const { return held_; }  // completions since that wait for company
  // Lets the notification fire for what is held. False: there is none.
  bool release();

  uint64_t user_handle = 0;  // verbs' own pointer, handed back in events
  uint32_t users = 0;        // QPs and SRQs that refer to it

 private:
  struct Ring;
  uint32_t id_;
  uint32_t capacity_;
  bool ignore_overrun_;
  bool overrun_ = false;
  uint32_t moderation_ = 1;
  uint32_t held_ = 0;
  std::unique_ptr<Ring> ring_;
  std::atomic<uint32_t> armed_{0};
};

}  // namespace uroce::engine
