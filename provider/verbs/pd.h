// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Protection domains, and parent domains, which are a protection domain under another name.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "provider/verbs/context.h"

namespace uroce::verbs {

struct ThreadDomain : ibv_td {
  ContextUse use;
  std::atomic<uint32_t> users{0};  // parent domains
};

struct ProtectionDomain : ibv_pd {
  ContextUse use;
  ProtectionDomain* real = nullptr;  // a parent domain's protection domain; itself otherwise
  ThreadDomain* thread_domain = nullptr;
  std::atomic<uint32_t> users{0};  // objects the control side does not count: address handles, parent domains

  static ProtectionDomain& of(ibv_pd* pd) { return *static_cast<ProtectionDomain*>(pd)->real; }
  // The number that memory keys and queue pairs are compared by.
  uint32_t number() const { return handle; }
  bool is_parent() const { return real != this; }
};

ibv_pd* alloc_pd(ibv_context* context);
// Another name of a domain, by its handle. EINVAL: no such domain.
ibv_pd* import_pd(ibv_context* context, uint32_t handle);
void unimport_pd(ibv_pd* pd);
int dealloc_pd(ibv_pd* pd);  // EBUSY while in use

// Thread domains promise that their objects are used by one thread at a time. Our locks cost less than
// looking for that promise.
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* td);  // EBUSY while a parent domain refers to it
// The program's allocators are kept but not called: queues live in our own memory, which is a legal answer to
// offering them.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);

}  // namespace uroce::verbs
