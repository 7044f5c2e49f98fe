// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/context.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "kmod-shim/uapi/uroce_abi.h"
#include "provider/verbs/boundary.h"
#include "provider/verbs/dm.h"
#include "provider/verbs/library.h"

namespace uroce::verbs {

int Context::kick(const uroce_kick& kick) {
  return call(*port_, IB_USER_VERBS_CMD_PEEK_CQ, kick);
}

bool Context::take_device_memory(uint64_t bytes) {
  uint64_t used = device_memory_.load(std::memory_order_relaxed);
  do {
    if (bytes > kMaxDeviceMemory - used) return false;
  } while (!device_memory_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void Context::close() {
  if (refused() != 0) {
    static_cast<void>(data_.release());
  } else {
    data_.reset();
  }
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
  if (int error = call(*port_, IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_query_device{}, device_attributes_);
      error != 0) {
    return error;
  }
  runtime::ContextConfig config;
  config.slot = ours.slot;
  config.cookie = ours.cookie;
  config.kick = [this](const uroce_kick& k) { return kick(k); };
  std::string why;
  errno = 0;
  data_ = runtime::Context::open(config, why);
  if (data_ != nullptr) return 0;
  const int error = errno != 0 ? errno : EIO;
  std::fprintf(stderr, "uroce: cannot open %s: %s\n", base_->device->name, why.c_str());
  return error;
}

namespace {

int open_block(ContextBlock& block, int cmd_fd) {
  const auto encoding =
      uses_ioctl_write(&block.context) ? CommandPort::Encoding::ioctl : CommandPort::Encoding::write;
  try {
    auto context = std::make_unique<Context>(&block.context, std::make_unique<CommandPort>(cmd_fd, encoding));
    if (int error = context->open(); error != 0) return error;
    block.own = context.release();
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (...) {
    return EIO;
  }
}

}  // namespace

abi::verbs_context* alloc_context(ibv_device* device, int cmd_fd, void*) noexcept {
  const Library& lib = library();
  auto* block = static_cast<ContextBlock*>(lib.init_and_alloc_context(
      device, cmd_fd, sizeof(ContextBlock), offset_in_block(*lib.layout), UROCE_DRIVER_ID));
  if (block == nullptr) return nullptr;
  abi::verbs_context* const context = private_context(&block->context);
  if (int error = open_block(*block, cmd_fd); error != 0) {
    lib.uninit_context(context);  // closes both descriptors
    std::free(block);
    return fail(error);
  }
  // The bit that get_context would set from the kernel's answer: relaxed ordering may be asked for.
  reinterpret_cast<abi::verbs_device*>(device)->core_support |= abi::kCoreSupportOptionalMrAccess;
  install_operations(&block->context);
  return context;
}

void free_context(ibv_context* base) {
  ContextBlock& block = block_of(base);
  block.own->close();
  if (block.own->has_objects()) {
    // Objects are left, and with each the library comes here through this memory: only the descriptors go.
    for (int* fd : {&base->cmd_fd, &base->async_fd}) {
      if (*fd >= 0) ::close(*fd);
      *fd = -1;
    }
    return;
  }
  delete block.own;
  library().uninit_context(private_context(base));
  std::free(&block);
}

}  // namespace uroce::verbs
