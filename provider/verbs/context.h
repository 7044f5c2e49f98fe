// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// An opened or imported device: libibverbs' block and, behind it, ours.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "provider/runtime/context.h"
#include "provider/verbs/command.h"
#include "provider/verbs/private_abi.h"
#include "provider/verbs/shared_context.h"

namespace uroce::verbs {

class Context {
 public:
  Context(ibv_context* base, std::unique_ptr<CommandPort> port);
  ~Context();
  Context(const Context&) = delete;

  static Context& of(ibv_context* context);

  // GET_CONTEXT and QUERY_DEVICE, then the data path. 0 or errno.
  int open();
  // Joins the data path of the context that has the same open file. EOPNOTSUPP: it is another process's.
  int import();

  // What stands in the way of a verb: 0; EACCES in a forked child (the data path belongs to the parent,
  // nothing may be touched); EIO after the device is gone (creations fail; destroys must go on, they ask
  // refused() only).
  int unusable() const {
    if (int error = refused(); error != 0) return error;
    return data_->fatal() ? EIO : 0;
  }
  // Also ENODEV after the program has closed the device.
  int refused() const {
    if (data_ == nullptr) return ENODEV;
    return data_->alive() ? 0 : EACCES;
  }

  runtime::Context& data() { return *data_; }
  CommandPort& port() { return *port_; }
  SharedContext& shared() { return *shared_; }
  XrcTable& xrc() { return shared_->xrc; }
  ibv_context* base() { return base_; }

  // Leaves the data path, which ends with the last context. A forked child only forgets it: thread and
  // sockets are the parent's.
  void close();
  bool closed() const { return data_ == nullptr; }

  // The memory of a context goes with the last of those who hold it: the program, by having it open, and
  // every object. So an object that is destroyed after its device was closed, which is wrong but happens,
  // finds what it needs.
  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  void drop();
  bool has_objects() const { return holders_.load(std::memory_order_acquire) > 1; }

 private:
  int open_data_path(const uroce_get_context_resp& ours);
  void join(std::shared_ptr<SharedContext> shared);

  ibv_context* base_;
  std::unique_ptr<CommandPort> port_;
  std::atomic<uint32_t> holders_{1};
  std::shared_ptr<SharedContext> shared_;
  runtime::Context* data_ = nullptr;  // shared_'s; null when closed
};

// Part of every object.
class ContextUse {
 public:
  ContextUse() = default;
  ContextUse(const ContextUse&) = delete;
  ~ContextUse() {
    if (context_ != nullptr) context_->drop();
  }
  void begin(Context& context) {
    context_ = &context;
    context_->hold();
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
abi::verbs_context* import_context(ibv_device* device, int cmd_fd) noexcept;
void free_context(ibv_context* context);

// Installs the operations; operations.cc.
void install_operations(ibv_context* context);

}  // namespace uroce::verbs
