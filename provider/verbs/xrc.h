// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// XRC domains, within one process. A domain is shared by opening it on the same inode.
#pragma once

#include <infiniband/verbs.h>

#include "provider/verbs/context.h"
#include "provider/verbs/private_abi.h"

namespace uroce::verbs {

struct XrcDomain : abi::verbs_xrcd {
  ContextUse use;
  uint32_t number = 0;  // what queues and SRQs of one domain share; the handle differs with every open

  static XrcDomain& of(ibv_xrcd* base) {
    return static_cast<XrcDomain&>(*reinterpret_cast<abi::verbs_xrcd*>(base));
  }
};

// EOPNOTSUPP when another process holds the inode's domain (the answering side says so): it could not reach
// our memory.
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes);
int close_xrcd(ibv_xrcd* xrcd);
// A further handle of an XRC target of this context. EINVAL: no such queue pair in the domain.
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes);

}  // namespace uroce::verbs
