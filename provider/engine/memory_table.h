// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Memory regions and windows by key. A key is index(24) | variant(8): the index finds the entry, the whole
// key must match, so a key that was given out again does not open the new owner's memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "provider/engine/attributes.h"
#include "provider/engine/work.h"
#include "provider/wire/number.h"

namespace uroce::engine {

// In the order in which they are found (IBA 9.7.4.1.5): key, domain, right, bounds.
enum class KeyCheck : uint8_t { ok, bad_key, wrong_domain, no_right, out_of_bounds };

// Where a checked range lies in our address space.
struct MappedRange {
  uint64_t host_va = 0;
  bool null = false;  // of a null MR: nothing is there
};

class MemoryTable {
 public:
  MemoryTable();

  // ---- control: 0 or a positive errno -----------------------------------------------------------
  int add_region(const MrConfig& config);
  int change_region(uint32_t key, const MrConfig& config);
  int remove_region(uint32_t key);
  int add_window(uint32_t rkey, uint32_t pd, bool type2);
  int remove_window(uint32_t rkey);

  // ---- data path --------------------------------------------------------------------------------
  // Local access through an lkey. `needed`: bits of Access; reading needs none.
  KeyCheck check_local(uint32_t lkey, uint32_t pd, uint32_t needed, uint64_t va, uint64_t bytes,
                       MappedRange& out) const;
  // Access of a peer through an rkey, of a region or a window; windows of type 2 belong to one QP.
  KeyCheck check_remote(uint32_t rkey, uint32_t pd, wire::Qpn qpn, uint32_t needed, uint64_t va,
                        uint64_t bytes, MappedRange& out) const;
  // The region that a FLUSH of a whole region means: its range.
  bool region_range(uint32_t rkey, uint64_t& va, uint64_t& bytes) const;
  // False: refused (IBA 10.6.6.2).
  bool bind_window(uint32_t pd, wire::Qpn qpn, const SendRequest::Bind& bind);
  // LOCAL_INV and SEND with invalidate: windows of type 2 only.
  bool invalidate(uint32_t rkey, uint32_t pd, wire::Qpn qpn);
  // Windows bound through a QP that goes away are free again.
  void unbind_all_of(wire::Qpn qpn);

 private:
  enum class Kind : uint8_t { free, region, window_type1, window_type2 };
  struct Entry {
    Kind kind = Kind::free;
    bool implicit = false;
    bool null = false;
    bool bound = false;  // window
    uint32_t key = 0;
    uint32_t pd = 0;
    uint32_t access = 0;
    uint32_t windows = 0;     // region: how many windows are bound to it
    uint32_t region_key = 0;  // window: what it is bound to
    wire::Qpn qpn;            // window of type 2
    uint64_t iova = 0;        // window: first address in the region
    uint64_t length = 0;
    uint64_t host_va = 0;
  };
  static constexpr uint32_t kPageBits = 12;
  struct Page {
    std::array<Entry, 1u << kPageBits> entries;
  };

  const Entry* find(uint32_t key) const;
  Entry* find(uint32_t key) { return const_cast<Entry*>(static_cast<const MemoryTable*>(this)->find(key)); }
  Entry* slot(uint32_t key);
  Entry* region(uint32_t key);
  static bool inside(const Entry& entry, uint64_t va, uint64_t bytes);
  static MappedRange map(const Entry& region, uint64_t va);
  void unbind(Entry& window);
  void fill(Entry& entry, const MrConfig& config);

  std::unique_ptr<std::unique_ptr<Page>[]> pages_;
};

}  // namespace uroce::engine
