// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/registry.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

namespace uroce::daemon {

namespace {

constexpr size_t padded(size_t bytes) {
  return (bytes + 7) & ~size_t{7};
}

// The other side of these stores is a later process, never another CPU at the same time: the compiler's order
// is enough.
void in_order() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

State* create_state(Fd& memory, std::string& why) {
  memory.reset(memfd_create("uroced-state", MFD_CLOEXEC));
  if (!memory || ftruncate(memory.get(), sizeof(State)) != 0) {
    why = std::string("cannot make memory for the daemon's state: ") + std::strerror(errno);
    return nullptr;
  }
  // Sparse: only what is used costs memory.
  void* mapped =
      mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    why = std::string("cannot map the daemon's state (") + std::to_string(sizeof(State) >> 20) +
          " MiB of address space): " + std::strerror(errno) + "; raise `ulimit -v`";
    return nullptr;
  }
  auto* state = static_cast<State*>(mapped);
  state->started_at = static_cast<uint64_t>(time(nullptr));
  return state;
}

void Registry::recover() {
  roll_back();
  if (state_.in_flight_connection != 0) {
    ConnectionRecord& suspect = state_.connections[state_.in_flight_connection % kMaxConnections];
    if (state_.crashed != 0) suspect.crashes++;
    state_.in_flight_connection = 0;
  }
  state_.generation++;
}

void Registry::begin() {
  open_ = true;
}

void Registry::commit() {
  in_order();
  state_.journal_used = 0;
  open_ = false;
}

void Registry::roll_back() {
  // Oldest first in memory, so undone from the end: the entries are found again by walking forward once.
  uint32_t starts[kJournalBytes / sizeof(JournalEntry)];
  uint32_t count = 0;
  for (uint32_t at = 0; at < state_.journal_used;) {
    JournalEntry entry;
    std::memcpy(&entry, state_.journal + at, sizeof entry);
    starts[count++] = at;
    at += static_cast<uint32_t>(sizeof entry + padded(entry.bytes));
  }
  while (count > 0) {
    const uint32_t at = starts[--count];
    JournalEntry entry;
    std::memcpy(&entry, state_.journal + at, sizeof entry);
    std::memcpy(reinterpret_cast<uint8_t*>(&state_) + entry.offset, state_.journal + at + sizeof entry,
                entry.bytes);
  }
  in_order();
  state_.journal_used = 0;
  open_ = false;
}

void Registry::save(const void* bytes, size_t count) {
  if (!open_) return;
  const size_t needed = sizeof(JournalEntry) + padded(count);
  if (state_.journal_used + needed > kJournalBytes) throw std::bad_alloc();
  const JournalEntry entry{
      static_cast<uint64_t>(static_cast<const uint8_t*>(bytes) - reinterpret_cast<const uint8_t*>(&state_)),
      static_cast<uint32_t>(count), 0};
  std::memcpy(state_.journal + state_.journal_used, &entry, sizeof entry);
  std::memcpy(state_.journal + state_.journal_used + sizeof entry, bytes, count);
  in_order();
  state_.journal_used += static_cast<uint32_t>(needed);
  in_order();
}

uint32_t Registry::create_object(uint32_t slot, ObjectKind kind, uint64_t user_handle) {
  // Freed positions come back in the order in which they were freed, and only when many wait: a stale handle
  // or key finds nothing for as long as possible.
  constexpr uint32_t kWaiting = 1024;
  const bool fresh_left = state_.objects_used + 1 < kMaxObjects;
  uint32_t index = 0;
  if (state_.free_count > kWaiting || (!fresh_left && state_.free_count > 0)) {
    index = state_.free_first;
    edit(state_.free_count)--;
    edit(state_.free_first) = state_.objects[index].next;
    if (state_.free_first == 0) edit(state_.free_last) = 0;
  } else if (fresh_left) {
    index = ++edit(state_.objects_used);
  } else {
    return 0;
  }
  ObjectRecord& object = edit(state_.objects[index]);
  const uint32_t variant = object.variant;
  std::memset(static_cast<void*>(&object), 0, sizeof object);
  object.variant = variant;
  object.kind = kind;
  object.slot = slot;
  object.user_handle = user_handle;

  const ContextRecord& owner = state_.contexts[slot];
  object.next = owner.first_object;
  if (object.next != 0) edit(state_.objects[object.next]).previous = index;
  edit(owner.first_object) = index;
  edit(owner.object_count)++;
  edit(owner.kind_counts[static_cast<uint32_t>(kind)])++;
  return index;
}

void Registry::destroy_object(uint32_t index) {
  ObjectRecord& object = edit(state_.objects[index]);
  const ContextRecord& owner = state_.contexts[object.slot];
  if (object.previous != 0) {
    edit(state_.objects[object.previous]).next = object.next;
  } else {
    edit(owner.first_object) = object.next;
  }
  if (object.next != 0) edit(state_.objects[object.next]).previous = object.previous;
  edit(owner.object_count)--;
  edit(owner.kind_counts[static_cast<uint32_t>(object.kind)])--;

  object.kind = ObjectKind::free;
  object.next = object.previous = 0;
  if (state_.free_last != 0) {
    edit(state_.objects[state_.free_last]).next = index;
  } else {
    edit(state_.free_first) = index;
  }
  edit(state_.free_last) = index;
  edit(state_.free_count)++;
}

const ObjectRecord* Registry::find(uint32_t slot, ObjectKind kind, uint32_t handle) const {
  if (handle == 0 || handle >= kMaxObjects) return nullptr;
  const ObjectRecord& object = state_.objects[handle];
  return object.kind == kind && object.slot == slot ? &object : nullptr;
}

void Registry::add_user(uint32_t index, int change) {
  if (index != 0) edit(state_.objects[index].users) += static_cast<uint32_t>(change);
}

uint32_t Registry::fresh_key(uint32_t index) {
  const uint32_t variant = (state_.objects[index].variant + 1) & 0xff;
  edit(state_.objects[index].variant) = variant;
  return index << 8 | variant;
}

uint32_t Registry::take_qpn(uint32_t slot) {
  const ContextRecord& context = state_.contexts[slot];
  const uint32_t from = context.next_qp_index % UROCE_MAX_QP_PER_CONTEXT;
  for (uint32_t step = 0; step < UROCE_MAX_QP_PER_CONTEXT; ++step) {
    const uint32_t index = (from + step) % UROCE_MAX_QP_PER_CONTEXT;
    const uint64_t& word = context.qp_indices[index / 64];
    if ((word >> (index % 64) & 1) != 0) continue;
    edit(word) |= uint64_t{1} << (index % 64);
    edit(context.next_qp_index) = index + 1;
    return slot << 14 | index;
  }
  return 0;
}

void Registry::give_qpn(uint32_t slot, uint32_t qpn) {
  const uint32_t index = qpn % kQpIndices;
  edit(state_.contexts[slot].qp_indices[index / 64]) &= ~(uint64_t{1} << (index % 64));
}

}  // namespace uroce::daemon
