// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Work requests and completions as the engine sees them: verbs' structures without libibverbs' types.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "provider/engine/path.h"

namespace uroce::engine {

enum class QpType : uint8_t { rc, uc, ud, xrc_initiator, xrc_target };

enum class WrOpcode : uint8_t {
  send,
  send_imm,
  send_invalidate,
  write,
  write_imm,
  read,
  compare_swap,
  fetch_add,
  local_invalidate,
  bind_window,
  flush,  // memory placement extensions
  atomic_write,
};

struct SgEntry {
  uint64_t va = 0;
  uint32_t length = 0;
  uint32_t lkey = 0;
};

struct SendFlags {
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool inline_data = false;  // `inline_parts` is copied at post time, `sges` is ignored
};

struct SendRequest {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::send;
  SendFlags flags;
  std::span<const SgEntry> sges;
  // Inline: bytes are gathered from here at post time (the caller's own memory, read without protection).
  std::span<const std::span<const std::byte>> inline_parts;
  uint32_t imm_be = 0;
  uint32_t invalidate_rkey = 0;
  uint64_t remote_va = 0;
  uint32_t rkey = 0;
  uint64_t compare = 0;  // compare_swap
  uint64_t swap_or_add =
      0;  // compare_swap: swap; fetch_add: add; atomic_write: the 8 bytes as they lie in memory
  // UD
  PathId ud_path;
  wire::Qpn ud_qpn;
  uint32_t ud_qkey = 0;  // top bit set: the QP's own Q_Key is sent (IBA 10.2.5)
  bool ud_multicast = false;
  // XRC
  uint32_t xrc_srqn = 0;
  // bind_window
  struct Bind {
    uint32_t window_rkey = 0;  // the window's current rkey (type 2: its index part)
    uint32_t new_rkey = 0;
    uint32_t region_lkey = 0;
    uint64_t va = 0;
    uint64_t length = 0;
    uint32_t access = 0;
  } bind;
  // flush
  uint8_t flush_placement = 0;
  uint8_t flush_selectivity = 0;
  uint32_t flush_length = 0;
};

struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const SgEntry> sges;
};

// Numbers equal enum ibv_wc_status.
enum class WcStatus : uint8_t {
  success = 0,
  local_length_error = 1,
  local_qp_operation_error = 2,
  local_protection_error = 4,
  flush_error = 5,
  memory_window_bind_error = 6,
  bad_response = 7,
  local_access_error = 8,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
  remote_aborted = 16,
  fatal = 19,
  response_timeout = 20,
  general_error = 21,
};

// Numbers equal enum ibv_wc_opcode.
enum class WcOpcode : uint8_t {
  send = 0,
  rdma_write = 1,
  rdma_read = 2,
  compare_swap = 3,
  fetch_add = 4,
  bind_window = 5,
  local_invalidate = 6,
  flush = 8,
  atomic_write = 9,
  recv = 128,
  recv_rdma_with_imm = 129,
};

struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;
  // Flags: numbers equal enum ibv_wc_flags.
  static constexpr uint8_t kGrh = 1, kWithImm = 2, kWithInvalidate = 8;
  uint8_t flags = 0;
  uint8_t reserved = 0;
  uint32_t vendor_error = 0;  // ours: a VendorError, says where the status came from
  uint32_t byte_len = 0;
  uint32_t imm_or_rkey = 0;  // immediate as it stood on the wire, or the invalidated rkey
  uint32_t qp_num = 0;
  uint32_t src_qp = 0;
  uint32_t srq_number = 0;    // XRC receives
  uint64_t timestamp_ns = 0;  // the `now` of the input that caused it
  // Counts the completions of its queue that were polled, or nullptr: a request takes its place in the queue
  // until then.
  std::atomic<uint32_t>* polled = nullptr;
};

// Access rights; numbers equal enum ibv_access_flags.
struct Access {
  static constexpr uint32_t local_write = 1, remote_write = 2, remote_read = 4, remote_atomic = 8,
                            window_bind = 16, zero_based = 32, on_demand = 64, huge_tlb = 128,
                            flush_global = 256, flush_persistent = 512, relaxed_ordering = 1u << 20;
};

}  // namespace uroce::engine
