// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One uverbs command being answered. Handlers change the registry inside the caller's transaction: when one
// returns an errno, all it has changed is undone.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <span>

#include "tools/uroced/device_facts.h"
#include "tools/uroced/fd.h"
#include "tools/uroced/registry.h"
#include "tools/uroced/uverbs_command.h"
#include "tools/uroced/uverbs_limits.h"

namespace uroce::daemon {

// Asked of the daemon's other parts by the few commands that reach beyond the registry.
class UverbsHost {
 public:
  // A slot for a new context of the device, its record live and its pages and async sockets made. 0 with
  // errno and `why`.
  virtual uint32_t open_context(uint32_t device, uint32_t connection, std::string& why) = 0;
  virtual DeviceFacts facts(uint32_t device) const = 0;

 protected:
  ~UverbsHost() = default;
};

struct UverbsCall {
  Registry& registry;
  UverbsHost& host;
  uint32_t connection;
  uint32_t device;                  // position
  uint32_t slot;                    // 0: GET_CONTEXT has not come yet; set by it
  pid_t pid;                        // of the client
  std::span<const Fd> descriptors;  // that came with the command
  const Command& command;
  CommandReply& reply;
  bool makes_async_pair = false;  // the reply carries the async event socketpair
  std::string why{};              // with an error: for the person, where an errno does not say it

  // The core request; a longer one of a newer client is cut, a shorter one (extended commands) filled with
  // zeros.
  template <typename T>
  T request() const {
    T value{};
    const size_t bytes = command.core_in.size() < sizeof value ? command.core_in.size() : sizeof value;
    std::memcpy(&value, command.core_in.data(), bytes);
    return value;
  }
  // False: an extended request has members that we do not know and that are not zero (EOPNOTSUPP).
  template <typename T>
  bool rest_is_zero() const {
    for (size_t i = sizeof(T); i < command.core_in.size(); ++i) {
      if (command.core_in[i] != std::byte{0}) return false;
    }
    return true;
  }
  const ObjectRecord* find(ObjectKind kind, uint32_t handle) const {
    return registry.find(slot, kind, handle);
  }
  ObjectRecord& edit(uint32_t handle) { return registry.edit(registry.object(handle)); }
  // 0 with errno: quota or memory.
  uint32_t create(ObjectKind kind, uint64_t user_handle) {
    const ContextRecord& context = registry.context(slot);
    const bool too_many = context.object_count >= kMostObjects ||
                          context.kind_counts[static_cast<uint32_t>(kind)] >= most_of(kind);
    const uint32_t index = too_many ? 0 : registry.create_object(slot, kind, user_handle);
    if (index == 0) errno = ENOMEM;
    return index;
  }
};

// By object, each in its file. All return 0 or a positive errno.
int get_context(UverbsCall&);
int query_device(UverbsCall&);
int query_device_extended(UverbsCall&);
int query_port(UverbsCall&);
int alloc_pd(UverbsCall&);
int dealloc_pd(UverbsCall&);
int reg_mr(UverbsCall&);
int rereg_mr(UverbsCall&);
int dereg_mr(UverbsCall&);
int alloc_mw(UverbsCall&);
int dealloc_mw(UverbsCall&);
int create_cq(UverbsCall&);
int create_cq_extended(UverbsCall&);
int resize_cq(UverbsCall&);
int destroy_cq(UverbsCall&);
int create_qp(UverbsCall&);
int create_qp_extended(UverbsCall&);
int open_qp(UverbsCall&);
int query_qp(UverbsCall&);
int modify_qp(UverbsCall&);
int modify_qp_extended(UverbsCall&);
int destroy_qp(UverbsCall&);
int attach_mcast(UverbsCall&);
int detach_mcast(UverbsCall&);
int create_srq(UverbsCall&);
int create_xsrq(UverbsCall&);
int modify_srq(UverbsCall&);
int query_srq(UverbsCall&);
int destroy_srq(UverbsCall&);
int open_xrcd(UverbsCall&);
int close_xrcd(UverbsCall&);

// Drops what `index` uses and removes it, whoever still uses it: for contexts that are taken apart. Users'
// own references to it must go in the same sweep.
void release_object(Registry& registry, uint32_t index);

// Bytes that were written to the device in, answer in `call.reply` out.
int execute_uverbs(UverbsCall& call);
std::span<const CommandShape> uverbs_shapes();

}  // namespace uroce::daemon
