// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The requests between ibv_wr_start and ibv_wr_complete (ibv_wr_post(3)): gathered here, posted together or
// not at all. An error of a builder function shows at complete. The vectors keep their memory, so a program
// in its stride allocates nothing.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "provider/engine/queue_pair.h"

namespace uroce::verbs {

class WrBatch {
 public:
  explicit WrBatch(const ibv_qp_cap& cap) : cap_(cap) {}

  void start();
  // The next request, for the caller to fill in. Lists are given by the members below.
  engine::SendRequest& begin(engine::WrOpcode opcode, uint64_t wr_id, unsigned flags) noexcept;
  // The request that setters apply to; a scratch one before the first.
  engine::SendRequest& current();

  void set_list(const ibv_sge* list, size_t count) noexcept;
  void begin_inline() noexcept;
  void add_inline(const void* bytes, size_t count) noexcept;
  void refuse(int error);  // the first one counts

  // All or nothing: 0 or the errno of the first request that would not be taken.
  int submit(engine::QueuePair& queue) noexcept;
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    engine::SendRequest request;
    size_t first_sge = 0, sge_count = 0;
    size_t first_byte = 0, byte_count = 0;
  };
  void resolve(Entry& entry, std::span<const std::byte>& part) const;

  ibv_qp_cap cap_;
  int error_ = 0;
  std::vector<Entry> entries_;
  std::vector<engine::SgEntry> sges_;
  std::vector<std::byte> bytes_;
  Entry scratch_;  // takes what comes after an error
};

}  // namespace uroce::verbs
