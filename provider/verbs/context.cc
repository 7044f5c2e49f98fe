// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/context.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/verbs/boundary.h"
#include "provider/verbs/library.h"
#include "provider/verbs/open_file.h"

namespace uroce::verbs {

namespace {

// Those that are open, for imports. Never destroyed: programs close devices in destructors that run after
// ours.
struct OpenContexts {
  std::mutex lock;
  std::vector<Context*> contexts;
};
OpenContexts& open_contexts() {
  static auto* const all = new OpenContexts;
  return *all;
}

}  // namespace

Context::Context(ibv_context* base, std::unique_ptr<CommandPort> port)
    : base_(base), port_(std::move(port)) {}
Context::~Context() {
  close();
}

void Context::join(std::shared_ptr<SharedContext> shared) {
  OpenContexts& all = open_contexts();
  const std::lock_guard guard(all.lock);
  all.contexts.push_back(this);
  shared->kicks.add(port_.get());
  shared_ = std::move(shared);
  data_ = shared_->data.get();
  base_->num_comp_vectors = shared_->num_comp_vectors;
}

void Context::close() {
  if (data_ == nullptr) return;
  if (data_->alive()) {
    OpenContexts& all = open_contexts();
    const std::lock_guard guard(all.lock);
    std::erase(all.contexts, this);
    if (shared_.use_count() == 1) shared_->data.reset();  // it may still kick until it is gone
    shared_->kicks.remove(port_.get());
  } else {
    // Locks may be held by threads that the child does not have.
    new std::shared_ptr<SharedContext>(shared_);
  }
  data_ = nullptr;
}

int Context::open_data_path(const uroce_get_context_resp& ours) {
  auto shared = std::make_shared<SharedContext>();
  shared->num_comp_vectors = base_->num_comp_vectors;
  const int error =
      call(*port_, IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_query_device{}, shared->device_attributes);
  if (error != 0) return error;
  shared->kicks.add(port_.get());  // kicks may come at once
  runtime::ContextConfig config;
  config.slot = ours.slot;
  config.cookie = ours.cookie;
  config.kick = [line = &shared->kicks](const uroce_kick& kick) { return line->send(kick); };
  std::string why;
  errno = 0;
  shared->data = runtime::Context::open(config, why);
  if (shared->data == nullptr) {
    const int failed = errno != 0 ? errno : EIO;
    std::fprintf(stderr, "uroce: cannot open %s: %s\n", base_->device->name, why.c_str());
    return failed;
  }
  shared->kicks.remove(port_.get());
  join(std::move(shared));
  return 0;
}

int Context::open() {
  ib_uverbs_get_context request{};
  ib_uverbs_get_context_resp response{};
  uroce_get_context_resp ours{};
  if (int error = call(*port_, IB_USER_VERBS_CMD_GET_CONTEXT, request, response, ours); error != 0)
    return error;
  base_->async_fd = static_cast<int>(response.async_fd);
  base_->num_comp_vectors = static_cast<int>(response.num_comp_vectors);
  if (ours.abi_version != UROCE_ABI_VERSION) {
    std::fprintf(stderr, "uroce: %s speaks driver ABI %u, this provider %u: install one version of both\n",
                 base_->device->name, ours.abi_version, UROCE_ABI_VERSION);
    return EPROTONOSUPPORT;
  }
  return open_data_path(ours);
}

int Context::import() {
  std::shared_ptr<SharedContext> shared;
  {
    OpenContexts& all = open_contexts();
    const std::lock_guard guard(all.lock);
    for (Context* other : all.contexts) {
      if (!same_open_file(other->base_->cmd_fd, base_->cmd_fd)) continue;
      shared = other->shared_;
      break;
    }
  }
  if (shared == nullptr) return EOPNOTSUPP;
  if (!shared->data->alive()) return EACCES;
  join(std::move(shared));
  return 0;
}

namespace {

int begin(ContextBlock& block, int cmd_fd, int (Context::*how)()) {
  const auto encoding =
      uses_ioctl_write(&block.context) ? CommandPort::Encoding::ioctl : CommandPort::Encoding::write;
  try {
    auto context = std::make_unique<Context>(&block.context, std::make_unique<CommandPort>(cmd_fd, encoding));
    if (int error = (context.get()->*how)(); error != 0) return error;
    block.own = context.release();
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (...) {
    return EIO;
  }
}

abi::verbs_context* make_context(ibv_device* device, int cmd_fd, int (Context::*how)()) {
  const Library& lib = library();
  auto* block = static_cast<ContextBlock*>(lib.init_and_alloc_context(
      device, cmd_fd, sizeof(ContextBlock), offset_in_block(*lib.layout), UROCE_DRIVER_ID));
  if (block == nullptr) return nullptr;
  abi::verbs_context* const context = private_context(&block->context);
  if (int error = begin(*block, cmd_fd, how); error != 0) {
    lib.uninit_context(context);  // closes both descriptors
    std::free(block);
    return fail(error);
  }
  // The bit that get_context would set from the kernel's answer: relaxed ordering may be asked for.
  reinterpret_cast<abi::verbs_device*>(device)->core_support |= abi::kCoreSupportOptionalMrAccess;
  install_operations(&block->context);
  return context;
}

}  // namespace

abi::verbs_context* alloc_context(ibv_device* device, int cmd_fd, void*) noexcept {
  return make_context(device, cmd_fd, &Context::open);
}
abi::verbs_context* import_context(ibv_device* device, int cmd_fd) noexcept {
  return make_context(device, cmd_fd, &Context::import);
}

void free_context(ibv_context* base) {
  Context& context = *block_of(base).own;
  context.close();
  if (context.has_objects()) {
    for (int* fd : {&base->cmd_fd, &base->async_fd}) {
      if (*fd >= 0) ::close(*fd);
      *fd = -1;
    }
  }
  context.drop();
}

void Context::drop() {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  ContextBlock& block = block_of(base_);
  delete this;
  library().uninit_context(private_context(&block.context));
  std::free(&block);
}

}  // namespace uroce::verbs
