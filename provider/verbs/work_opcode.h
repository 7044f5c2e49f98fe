// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Verbs' opcodes and flags of send requests as the engine names them.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>

#include "provider/engine/work.h"

namespace uroce::verbs {

// False: an opcode that no queue pair of ours takes.
inline bool engine_opcode(ibv_wr_opcode from, engine::WrOpcode& to) {
  using engine::WrOpcode;
  switch (from) {
    case IBV_WR_RDMA_WRITE: to = WrOpcode::write; return true;
    case IBV_WR_RDMA_WRITE_WITH_IMM: to = WrOpcode::write_imm; return true;
    case IBV_WR_SEND: to = WrOpcode::send; return true;
    case IBV_WR_SEND_WITH_IMM: to = WrOpcode::send_imm; return true;
    case IBV_WR_RDMA_READ: to = WrOpcode::read; return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP: to = WrOpcode::compare_swap; return true;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: to = WrOpcode::fetch_add; return true;
    case IBV_WR_LOCAL_INV: to = WrOpcode::local_invalidate; return true;
    case IBV_WR_BIND_MW: to = WrOpcode::bind_window; return true;
    case IBV_WR_SEND_WITH_INV: to = WrOpcode::send_invalidate; return true;
    case IBV_WR_ATOMIC_WRITE: to = WrOpcode::atomic_write; return true;
    default: return false;
  }
}

inline engine::SendFlags engine_flags(unsigned from) {
  return {.signaled = (from & IBV_SEND_SIGNALED) != 0,
          .solicited = (from & IBV_SEND_SOLICITED) != 0,
          .fence = (from & IBV_SEND_FENCE) != 0,
          .inline_data = (from & IBV_SEND_INLINE) != 0};
}

inline uint64_t read_atomic_word(const void* source) {
  uint64_t word = 0;
  std::memcpy(&word, source, sizeof(word));
  return word;
}

}  // namespace uroce::verbs
