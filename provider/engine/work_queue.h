// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The rings between posting threads and the engine: one producer, one consumer, memory taken once at
// creation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "provider/engine/work.h"
#include "provider/wire/number.h"

namespace uroce::engine {

inline constexpr uint32_t kMaxSge = 32;
inline constexpr uint32_t kMaxInline = 4096;
inline constexpr uint32_t kMaxQueueDepth = 1u << 20;
inline constexpr uint64_t kMaxMessage = 1ull << 31;  // IBA 9.7.3

// A posted send request and what the requester notes about it. The gather list, or the inline bytes, follow
// in memory.
struct SendWqe {
  uint64_t wr_id;
  WrOpcode opcode;
  bool signaled;
  bool solicited;
  bool fence;
  bool inline_data;
  uint8_t num_sge;
  uint32_t length;  // bytes of the message; at most 2^31
  uint32_t imm_be;  // or the rkey to invalidate
  uint32_t rkey;
  uint64_t remote_va;
  uint32_t xrc_srqn;

  // Requester's notes; valid once the request was begun.
  wire::Psn first_psn;
  uint32_t packets;       // PSNs it takes; READ: one per response packet, local operations: none
  uint32_t done_packets;  // READ: response packets taken
  uint32_t chunk;         // READ: responses asked for by one request packet

  struct Atomic {
    uint64_t compare;
    uint64_t swap_or_add;
  };
  struct Datagram {
    PathId path;
    wire::Qpn qpn;
    uint32_t qkey;
  };
  struct Flush {
    uint8_t placement;
    uint8_t selectivity;
    uint32_t length;
  };
  struct Bind {
    uint32_t window_rkey;
    uint32_t new_rkey;
    uint32_t region_lkey;
    uint32_t access;
    uint64_t va;
    uint64_t length;
  };
  union {
    Atomic atomic;
    Datagram datagram;
    Flush flush;
    Bind bind;
  };

  SgEntry* sges() { return reinterpret_cast<SgEntry*>(this + 1); }
  const SgEntry* sges() const { return reinterpret_cast<const SgEntry*>(this + 1); }
  std::byte* inline_bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* inline_bytes() const { return reinterpret_cast<const std::byte*>(this + 1); }
  // All its packets lie before `psn`, which is not before first_psn. Counted from there: a message of 2^31
  // bytes takes half of all PSNs, where before and after lose their meaning.
  bool lies_before(wire::Psn psn) const { return (psn - first_psn.value()).value() >= packets; }
  // One behind the last PSN.
  wire::Psn end_psn() const { return first_psn + packets; }
};

// A posted receive; the scatter list follows in memory.
struct RecvWqe {
  uint64_t wr_id;
  uint32_t num_sge;
  SgEntry* sges() { return reinterpret_cast<SgEntry*>(this + 1); }
  const SgEntry* sges() const { return reinterpret_cast<const SgEntry*>(this + 1); }
};

// Slots of one size, indexed by a counter that only grows. `capacity` slots may be in use; the ring has the
// next power of two.
class SlotRing {
 public:
  // Throws std::bad_alloc.
  SlotRing(uint32_t capacity, size_t slot_bytes);

  // ---- producer ---------------------------------------------------------------------------------
  // A request that has completed takes its place until the program has polled that: who posts until the queue
  // is full does not overrun a completion queue of the same size, as with other devices. Each counter only
  // grows and has one writer, so at any moment this errs towards full, and never for requests whose
  // completion, or a later one, the caller has seen.
  bool full(uint32_t ahead = 0) const {  // with `ahead` more of them before
    const uint32_t free = silent_.load(std::memory_order_acquire) + polled_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_relaxed) - free + ahead >= capacity_;
  }
  void* next_slot() const { return slot(tail_.load(std::memory_order_relaxed)); }
  // Sequentially consistent: a poster that then reads the QP's state, and a lane that sets the state and then
  // reads tail(), cannot both miss each other.
  void publish() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst); }

  // ---- consumer ---------------------------------------------------------------------------------
  uint32_t head() const { return head_.load(std::memory_order_relaxed); }
  uint32_t tail() const { return tail_.load(std::memory_order_seq_cst); }
  // Nothing before `head` is looked at again. The place of each is the producer's when its completion has
  // been counted in polled(), or at once without one.
  void retire_to(uint32_t head) { head_.store(head, std::memory_order_relaxed); }
  std::atomic<uint32_t>& polled() { return polled_; }
  void free_without_completion() {
    silent_.store(silent_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Everything is the producer's again; nobody polls meanwhile, and completions that were left are gone.
  void drop_all() {
    retire_to(tail());
    silent_.store(tail() - polled_.load(std::memory_order_relaxed), std::memory_order_release);
  }
  void* slot(uint32_t index) const { return memory_.get() + static_cast<size_t>(index & mask_) * stride_; }

  uint32_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  uint32_t capacity_;
  uint32_t mask_;
  size_t stride_;
  std::unique_ptr<std::byte[], Free> memory_;
  alignas(64) std::atomic<uint32_t> tail_{0};
  alignas(64) std::atomic<uint32_t> head_{0};
  std::atomic<uint32_t> silent_{0};
  alignas(64) std::atomic<uint32_t> polled_{0};
};

class SendQueue {
 public:
  SendQueue(uint32_t capacity, uint32_t max_sge, uint32_t max_inline);
  SendWqe& at(uint32_t index) const { return *static_cast<SendWqe*>(ring_.slot(index)); }
  SlotRing& ring() { return ring_; }
  const SlotRing& ring() const { return ring_; }

 private:
  SlotRing ring_;
};

class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t capacity, uint32_t max_sge);
  // 0, ENOMEM, EINVAL.
  int post(const RecvRequest& request);
  bool empty() const { return ring_.head() == ring_.tail(); }
  uint32_t waiting() const { return ring_.tail() - ring_.head(); }
  const RecvWqe& front() const { return *static_cast<const RecvWqe*>(ring_.slot(ring_.head())); }
  void pop() { ring_.retire_to(ring_.head() + 1); }
  void free_without_completion() { ring_.free_without_completion(); }
  void drop_all() { ring_.drop_all(); }
  std::atomic<uint32_t>& polled() { return ring_.polled(); }

 private:
  SlotRing ring_;
  uint32_t max_sge_;
};

}  // namespace uroce::engine
