// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Memory of one simulated program: arenas at made-up addresses, the same in every run. What lies outside
// them, or in one that was unmapped, faults.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "provider/engine/memory_access.h"

namespace uroce::test {

class HostMemory final : public engine::MemoryAccess {
 public:
  static constexpr uint64_t kArenaSpan = uint64_t{1} << 32;

  // Address of a new arena of zeros, page aligned.
  uint64_t add(size_t bytes) {
    arenas_.push_back({std::vector<std::byte>(bytes), true, true});
    return arenas_.size() * kArenaSpan;
  }
  void unmap(uint64_t va) { arena(va)->mapped = false; }
  void make_read_only(uint64_t va) { arena(va)->writable = false; }

  std::byte* at(uint64_t va) { return arena(va)->bytes.data() + va % kArenaSpan; }
  void fill(uint64_t va, size_t bytes, uint64_t seed) {
    std::byte* p = at(va);
    for (size_t i = 0; i < bytes; i += 8) {
      const uint64_t word = pattern(seed, i);
      std::memcpy(p + i, &word, std::min<size_t>(8, bytes - i));
    }
  }
  bool holds(uint64_t va, size_t bytes, uint64_t seed) {
    const std::byte* p = at(va);
    for (size_t i = 0; i < bytes; i += 8) {
      const uint64_t word = pattern(seed, i);
      if (std::memcmp(p + i, &word, std::min<size_t>(8, bytes - i)) != 0) return false;
    }
    return true;
  }
  bool is_zero(uint64_t va, size_t bytes) {
    const std::byte* p = at(va);
    for (size_t i = 0; i < bytes; ++i) {
      if (p[i] != std::byte{0}) return false;
    }
    return true;
  }
  uint64_t word(uint64_t va) {
    uint64_t value;
    std::memcpy(&value, at(va), sizeof value);
    return value;
  }
  void set_word(uint64_t va, uint64_t value) { std::memcpy(at(va), &value, sizeof value); }

  // Accesses that met no mapped arena.
  uint64_t faults() const { return faults_; }

  bool write(uint64_t va, const std::byte* source, size_t bytes) override {
    std::byte* to = find(va, bytes, true);
    if (to == nullptr) return false;
    std::memcpy(to, source, bytes);
    return true;
  }
  bool read(std::byte* destination, uint64_t va, size_t bytes) override {
    const std::byte* from = find(va, bytes, false);
    if (from == nullptr) return false;
    std::memcpy(destination, from, bytes);
    return true;
  }
  bool compare_swap(uint64_t va, uint64_t compare, uint64_t swap, uint64_t& original) override {
    if (find(va, 8, true) == nullptr) return false;
    original = word(va);
    if (original == compare) set_word(va, swap);
    return true;
  }
  bool fetch_add(uint64_t va, uint64_t add, uint64_t& original) override {
    if (find(va, 8, true) == nullptr) return false;
    original = word(va);
    set_word(va, original + add);
    return true;
  }

 private:
  struct Arena {
    std::vector<std::byte> bytes;
    bool mapped;
    bool writable;
  };
  static uint64_t pattern(uint64_t seed, size_t at) {
    const uint64_t x = (seed * 0x100000001b3u + at + 1) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
  }
  Arena* arena(uint64_t va) { return &arenas_.at(va / kArenaSpan - 1); }
  std::byte* find(uint64_t va, size_t bytes, bool writing) {
    const uint64_t index = va / kArenaSpan;
    const uint64_t offset = va % kArenaSpan;
    if (index == 0 || index > arenas_.size()) return fault();
    Arena& a = arenas_[index - 1];
    if (!a.mapped || (writing && !a.writable) || offset + bytes > a.bytes.size()) return fault();
    return a.bytes.data() + offset;
  }
  std::byte* fault() {
    ++faults_;
    return nullptr;
  }

  std::vector<Arena> arenas_;
  uint64_t faults_ = 0;
};

}  // namespace uroce::test
