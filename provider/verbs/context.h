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

  // GET_CONTEXT, then the data path. 0 or errno.
  int open();

  // What stands in the way of a verb: 0; EACCES in a forked child (the data path belongs to the parent,
  // nothing may be touched); EIO after the device is gone (creations fail; destroys must go on, they ask
  // refused() only).
  int unusable() const { return !data_->alive() ? EACCES : data_->fatal() ? EIO : 0; }
  int refused() const { return data_->alive() ? 0 : EACCES; }

  runtime::Context& data() { return *data_; }
  CommandPort& port() { return *port_; }
  XrcTable& xrc() { return xrc_; }
  ibv_context* base() { return base_; }

  // Device memory is counted, not owned, here. False: not so much is left.
  bool take_device_memory(uint64_t bytes);
  void give_device_memory(uint64_t bytes) { device_memory_.fetch_sub(bytes, std::memory_order_relaxed); }

  // Gives the runtime up without touching it (a forked child closes the device).
  void abandon() { static_cast<void>(data_.release()); }

 private:
  int kick(const uroce_kick& kick);

  ibv_context* base_;
  std::unique_ptr<CommandPort> port_;
  XrcTable xrc_;
  std::atomic<uint64_t> device_memory_{0};
  std::unique_ptr<runtime::Context> data_;  // after port_: its threads kick until it is gone
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
