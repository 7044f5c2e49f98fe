// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// An opened device: libibverbs' block and, behind it, ours.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>

#include "provider/runtime/context.h"
#include "provider/verbs/command.h"
#include "provider/verbs/private_abi.h"
#include "provider/verbs/xrc_table.h"

namespace uroce::verbs {

class Context {
 public:
  Context(ibv_context* base, std::unique_ptr<CommandPort> port) : base_(base), port_(std::move(port)) {}

  static Context& of(ibv_context* context);

  // GET_CONTEXT and QUERY_DEVICE, then the data path. 0 or errno.
  int open();

  // What stands in the way of a verb: 0; EACCES in a forked child (the data path belongs to the parent,
  // nothing may be touched); EIO after the device is gone (creations fail; destroys must go on, they ask
  // refused() only).
  int unusable() const {
    if (int error = refused(); error != 0) return error;
    return data_->fatal() ? EIO : 0;
  }
  // Also ENODEV after the program has closed the device (it must not, with objects left, but some do).
  int refused() const {
    if (data_ == nullptr) return ENODEV;
    return data_->alive() ? 0 : EACCES;
  }

  runtime::Context& data() { return *data_; }
  CommandPort& port() { return *port_; }
  XrcTable& xrc() { return xrc_; }
  ibv_context* base() { return base_; }
  // They do not change while the device lives.
  const ib_uverbs_query_device_resp& device_attributes() const { return device_attributes_; }

  // Device memory is counted, not owned, here. False: not so much is left.
  bool take_device_memory(uint64_t bytes);
  void give_device_memory(uint64_t bytes) { device_memory_.fetch_sub(bytes, std::memory_order_relaxed); }

  // Ends the data path. A forked child only forgets it: thread and sockets are the parent's.
  void close();
  bool has_objects() const { return objects_.load(std::memory_order_acquire) != 0; }

 private:
  friend class ContextUse;
  int kick(const uroce_kick& kick);

  ibv_context* base_;
  std::unique_ptr<CommandPort> port_;
  ib_uverbs_query_device_resp device_attributes_{};
  XrcTable xrc_;
  std::atomic<uint32_t> objects_{0};
  std::atomic<uint64_t> device_memory_{0};
  std::unique_ptr<runtime::Context> data_;  // after port_: its threads kick until it is gone
};

// Part of every object: while there is one, the memory of a closed context stays, so that destroying an
// object too late is an error and no crash.
class ContextUse {
 public:
  ContextUse() = default;
  ContextUse(const ContextUse&) = delete;
  ~ContextUse() {
    if (context_ != nullptr) context_->objects_.fetch_sub(1, std::memory_order_acq_rel);
  }
  void begin(Context& context) {
    context_ = &context;
    context_->objects_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  Context* context_ = nullptr;
};

// The memory that libibverbs allocates for us: its own part ends with ibv_context at a place that we fixed.
struct ContextBlock {
  std::byte library_part[abi::kContextEnd - sizeof(ibv_context)];
  ibv_context context;
  Context* own;
};
static_assert(offsetof(ContextBlock, own) == abi::kContextEnd);

inline ContextBlock& block_of(ibv_context* context) {
  return *reinterpret_cast<ContextBlock*>(reinterpret_cast<char*>(context) - offsetof(ContextBlock, context));
}
inline Context& Context::of(ibv_context* context) {
  return *block_of(context).own;
}

// ops of verbs_device_ops and verbs_context_ops
abi::verbs_context* alloc_context(ibv_device* device, int cmd_fd, void* private_data) noexcept;
void free_context(ibv_context* context);

// Installs the operations; operations.cc.
void install_operations(ibv_context* context);

}  // namespace uroce::verbs
