// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Devices, contexts, connections and objects in the state that outlives the worker (state.h), changed in
// transactions: what a command has changed is kept whole or not at all, also over the worker's death. One
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "tools/uroced/fd.h"
#include "tools/uroced/state.h"

namespace uroce::daemon {

// The keeper's part: makes the memory. The mapping is inherited by fork.
State* create_state(Fd& memory, std::string& why);

class Registry {
 public:
  explicit Registry(State& state) : state_(state) {}
  Registry(const Registry&) = delete;

  // A new worker calls this first: undoes what its predecessor left half done.
  void recover();

  // Transactions do not nest. Between begin and commit every change goes through edit(), which throws
  // std::bad_alloc when a transaction changes more than there is room to remember; roll_back() is possible
  // then.
  void begin();
  void commit();
  void roll_back();

  // The record for writing; inside a transaction its present contents are saved first.
  template <typename T>
  T& edit(const T& record) {
    save(&record, sizeof record);
    return const_cast<T&>(record);
  }

  const State& state() const { return state_; }
  const DeviceRecord& device(uint32_t position) const { return state_.devices[position]; }
  const ContextRecord& context(uint32_t slot) const { return state_.contexts[slot]; }
  const ConnectionRecord& connection(uint32_t position) const { return state_.connections[position]; }
  const ObjectRecord& object(uint32_t index) const { return state_.objects[index]; }

  // A fresh object of `slot`, its body zeroed; 0 when there is no room (ENOMEM). Its index is its handle.
  uint32_t create_object(uint32_t slot, ObjectKind kind, uint64_t user_handle);
  // Removes it from its owner; does not look at users.
  void destroy_object(uint32_t index);
  // The object if it is of this kind and belongs to this slot, else nullptr.
  const ObjectRecord* find(uint32_t slot, ObjectKind kind, uint32_t handle) const;
  void add_user(uint32_t index, int change);  // index 0: nothing
  // Key of an MR or MW: index(24) | variant(8), the variant changed since the last one.
  uint32_t fresh_key(uint32_t index);

  // A QPN of the slot that is free and was not used lately; 0 when all are taken.
  uint32_t take_qpn(uint32_t slot);
  void give_qpn(uint32_t slot, uint32_t qpn);

  template <typename Visit>  // Visit(uint32_t index, const ObjectRecord&)
  void for_each_object(uint32_t slot, Visit&& visit) const {
    for (uint32_t i = context(slot).first_object; i != 0;) {
      const uint32_t next = object(i).next;
      visit(i, object(i));
      i = next;
    }
  }

 private:
  void save(const void* bytes, size_t count);

  State& state_;
  bool open_ = false;
};

}  // namespace uroce::daemon
