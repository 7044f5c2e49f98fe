// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/memory_table.h"

#include <cerrno>
#include <limits>
#include <new>

namespace uroce::engine {

namespace {
constexpr uint32_t kPages = 1u << 12;
constexpr uint32_t index_of(uint32_t key) {
  return key >> 8;
}
}  // namespace

MemoryTable::MemoryTable() : pages_(std::make_unique<std::unique_ptr<Page>[]>(kPages)) {}

const MemoryTable::Entry* MemoryTable::find(uint32_t key) const {
  const uint32_t index = index_of(key);
  const Page* page = pages_[index >> kPageBits].get();
  if (page == nullptr) return nullptr;
  const Entry& entry = page->entries[index & ((1u << kPageBits) - 1)];
  return entry.kind != Kind::free && entry.key == key ? &entry : nullptr;
}

MemoryTable::Entry* MemoryTable::slot(uint32_t key) {
  const uint32_t index = index_of(key);
  auto& page = pages_[index >> kPageBits];
  if (page == nullptr) page.reset(new (std::nothrow) Page);
  return page == nullptr ? nullptr : &page->entries[index & ((1u << kPageBits) - 1)];
}

MemoryTable::Entry* MemoryTable::region(uint32_t key) {
  Entry* entry = find(key);
  return entry != nullptr && entry->kind == Kind::region ? entry : nullptr;
}

void MemoryTable::fill(Entry& entry, const MrConfig& config) {
  const uint32_t windows = entry.windows;
  entry = {};
  entry.kind = Kind::region;
  entry.windows = windows;
  entry.key = config.key;
  entry.pd = config.pd;
  entry.access = config.access;
  entry.null = config.null;
  entry.iova = config.iova;
  entry.length = config.length;
  entry.host_va = config.host_va;
  if (config.implicit || config.null) {
    entry.iova = entry.host_va = 0;
    entry.length = std::numeric_limits<uint64_t>::max();
  }
}

int MemoryTable::add_region(const MrConfig& config) {
  Entry* entry = slot(config.key);
  if (entry == nullptr) return ENOMEM;
  if (entry->kind != Kind::free) return EEXIST;
  *entry = {};
  fill(*entry, config);
  return 0;
}

int MemoryTable::change_region(uint32_t key, const MrConfig& config) {
  Entry* entry = region(key);
  if (entry == nullptr) return EINVAL;
  if (entry->windows != 0) return EBUSY;
  if (config.key == key) {
    fill(*entry, config);
    return 0;
  }
  if (index_of(config.key) == index_of(key)) {
    fill(*entry, config);
    return 0;
  }
  const int error = add_region(config);
  if (error == 0) *entry = {};
  return error;
}

int MemoryTable::remove_region(uint32_t key) {
  Entry* entry = region(key);
  if (entry == nullptr) return EINVAL;
  if (entry->windows != 0) return EBUSY;
  *entry = {};
  return 0;
}

int MemoryTable::add_window(uint32_t rkey, uint32_t pd, bool type2) {
  Entry* entry = slot(rkey);
  if (entry == nullptr) return ENOMEM;
  if (entry->kind != Kind::free) return EEXIST;
  *entry = {};
  entry->kind = type2 ? Kind::window_type2 : Kind::window_type1;
  entry->key = rkey;
  entry->pd = pd;
  return 0;
}

int MemoryTable::remove_window(uint32_t rkey) {
  // The variant of a window moves with every bind; the index is enough to name it.
  Entry* entry = slot(rkey);
  if (entry == nullptr || (entry->kind != Kind::window_type1 && entry->kind != Kind::window_type2))
    return EINVAL;
  unbind(*entry);
  *entry = {};
  return 0;
}

bool MemoryTable::inside(const Entry& entry, uint64_t va, uint64_t bytes) {
  return va >= entry.iova && bytes <= entry.length && va - entry.iova <= entry.length - bytes;
}

MappedRange MemoryTable::map(const Entry& region, uint64_t va) {
  return {region.host_va + (va - region.iova), region.null};
}

KeyCheck MemoryTable::check_local(uint32_t lkey, uint32_t pd, uint32_t needed, uint64_t va, uint64_t bytes,
                                  MappedRange& out) const {
  const Entry* entry = find(lkey);
  if (entry == nullptr || entry->kind != Kind::region) return KeyCheck::bad_key;
  if (entry->pd != pd) return KeyCheck::wrong_domain;
  if ((entry->access & needed) != needed) return KeyCheck::no_right;
  if (!inside(*entry, va, bytes)) return KeyCheck::out_of_bounds;
  out = map(*entry, va);
  return KeyCheck::ok;
}

KeyCheck MemoryTable::check_remote(uint32_t rkey, uint32_t pd, wire::Qpn qpn, uint32_t needed, uint64_t va,
                                   uint64_t bytes, MappedRange& out) const {
  const Entry* entry = find(rkey);
  if (entry == nullptr) return KeyCheck::bad_key;
  if (entry->kind == Kind::region) {
    if (entry->pd != pd) return KeyCheck::wrong_domain;
    if ((entry->access & needed) != needed) return KeyCheck::no_right;
    if (!inside(*entry, va, bytes)) return KeyCheck::out_of_bounds;
    out = map(*entry, va);
    return KeyCheck::ok;
  }
  if (!entry->bound) return KeyCheck::bad_key;
  if (entry->pd != pd) return KeyCheck::wrong_domain;
  if (entry->kind == Kind::window_type2 && entry->qpn != qpn) return KeyCheck::wrong_domain;
  if ((entry->access & needed) != needed) return KeyCheck::no_right;
  // A zero-based window counts from its own start.
  const uint64_t address = (entry->access & Access::zero_based) != 0 ? entry->iova + va : va;
  if (address < va && (entry->access & Access::zero_based) != 0) return KeyCheck::out_of_bounds;
  if (!inside(*entry, address, bytes)) return KeyCheck::out_of_bounds;
  const Entry* of = find(entry->region_key);
  if (of == nullptr) return KeyCheck::bad_key;
  out = map(*of, address);
  return KeyCheck::ok;
}

bool MemoryTable::region_range(uint32_t rkey, uint64_t& va, uint64_t& bytes) const {
  const Entry* entry = find(rkey);
  if (entry == nullptr) return false;
  va = (entry->access & Access::zero_based) != 0 && entry->kind != Kind::region ? 0 : entry->iova;
  bytes = entry->length;
  return true;
}

void MemoryTable::unbind(Entry& window) {
  if (!window.bound) return;
  Entry* of = region(window.region_key);
  if (of != nullptr) --of->windows;
  window.bound = false;
  window.region_key = 0;
  window.qpn = {};
}

bool MemoryTable::bind_window(uint32_t pd, wire::Qpn qpn, const SendRequest::Bind& bind) {
  Entry* window = slot(bind.window_rkey);
  if (window == nullptr || window->pd != pd) return false;
  const bool type2 = window->kind == Kind::window_type2;
  if (!type2 && window->kind != Kind::window_type1) return false;
  if (index_of(bind.new_rkey) != index_of(bind.window_rkey)) return false;
  // A bound window of type 2 has to be invalidated first; one of type 1 may be bound again, and length 0
  // takes its binding away.
  if (type2 && (window->bound || bind.length == 0)) return false;
  if (!type2 && bind.length == 0) {
    unbind(*window);
    window->key = bind.new_rkey;
    return true;
  }
  Entry* of = region(bind.region_lkey);
  if (of == nullptr || of->pd != pd || (of->access & Access::window_bind) == 0) return false;
  if ((of->access & Access::zero_based) != 0)
    return false;  // no windows on zero-based regions (IBA 10.6.6.2)
  if (!type2 && (bind.access & Access::zero_based) != 0) return false;
  constexpr uint32_t kWriting = Access::remote_write | Access::remote_atomic;
  if ((bind.access & kWriting) != 0 && (of->access & Access::local_write) == 0) return false;
  if (!inside(*of, bind.va, bind.length)) return false;
  unbind(*window);
  window->bound = true;
  window->key = bind.new_rkey;
  window->region_key = bind.region_lkey;
  window->access = bind.access;
  window->iova = bind.va;
  window->length = bind.length;
  window->qpn = type2 ? qpn : wire::Qpn{};
  ++of->windows;
  return true;
}

bool MemoryTable::invalidate(uint32_t rkey, uint32_t pd, wire::Qpn qpn) {
  Entry* window = find(rkey);
  if (window == nullptr || window->kind != Kind::window_type2 || !window->bound) return false;
  if (window->pd != pd || window->qpn != qpn) return false;
  unbind(*window);
  return true;
}

void MemoryTable::unbind_all_of(wire::Qpn qpn) {
  for (uint32_t p = 0; p < kPages; ++p) {
    if (pages_[p] == nullptr) continue;
    for (Entry& entry : pages_[p]->entries) {
      if (entry.kind == Kind::window_type2 && entry.bound && entry.qpn == qpn) unbind(entry);
    }
  }
}

}  // namespace uroce::engine
