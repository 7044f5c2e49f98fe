// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The engine's access to the program's memory: fault-safe, two ways. Direct copies while our fault handlers
// are in place; through a memfd (the kernel answers EFAULT) once the program has replaced them. Used under
// the lane only.
#pragma once

#include <memory>

#include "provider/engine/memory_access.h"

namespace uroce::runtime {

class ProgramMemory final : public engine::MemoryAccess {
 public:
  // nullptr with errno when no memfd can be made.
  static std::unique_ptr<ProgramMemory> open();
  ~ProgramMemory();

  bool write(uint64_t va, const std::byte* source, size_t bytes) override;
  bool read(std::byte* destination, uint64_t va, size_t bytes) override;
  bool compare_swap(uint64_t va, uint64_t compare, uint64_t swap, uint64_t& original) override;
  bool fetch_add(uint64_t va, uint64_t add, uint64_t& original) override;

  // Looks whether our handlers are still there and chooses the way. Called now and then (two system calls).
  void check_handlers();
  bool direct() const { return direct_; }

 private:
  ProgramMemory(int memfd, std::byte* window) : memfd_(memfd), window_(window) {}
  bool word_is_there(uint64_t va);

  int memfd_;
  std::byte* window_;  // mapping of the memfd
  bool direct_ = true;
};

}  // namespace uroce::runtime
