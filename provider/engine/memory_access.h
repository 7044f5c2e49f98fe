// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// How the engine touches the program's memory. A registered range may be unmapped behind our back: every
// access can fault, and a fault is an answer, not a crash. The runtime implements this with fault-safe
// copies, the simulation with checked buffers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::engine {

class MemoryAccess {
 public:
  // Stores in ascending order with the last bytes last (programs poll on them) and aligned 8-byte words
  // whole.
  virtual bool write(uint64_t va, const std::byte* source, size_t bytes) = 0;
  virtual bool read(std::byte* destination, uint64_t va, size_t bytes) = 0;

  // CPU atomics on an aligned 8-byte word in host order; `original` is the value before.
  virtual bool compare_swap(uint64_t va, uint64_t compare, uint64_t swap, uint64_t& original) = 0;
  virtual bool fetch_add(uint64_t va, uint64_t add, uint64_t& original) = 0;

 protected:
  ~MemoryAccess() = default;
};

}  // namespace uroce::engine
