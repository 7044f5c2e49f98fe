// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Address handles: an address vector whose path was looked up. They exist here only; the control side need
// not know them.
#pragma once

#include <infiniband/verbs.h>

#include "provider/engine/path.h"
#include "provider/verbs/context.h"

namespace uroce::verbs {

struct AddressHandle : ibv_ah {
  engine::PathId path;
  bool multicast = false;
  ContextUse use;

  static AddressHandle& of(ibv_ah* ah) { return *static_cast<AddressHandle*>(ah); }
};

// The path of an address vector, with references of its own (Context::release_path). 0; EINVAL: no GRH (RoCE
// has no other addresses), a port that does not exist, an empty or unknown source GID, a destination of zero
// or of another family.
int resolve_path(Context& context, const ibv_ah_attr& attributes, engine::PathId& id, engine::Path& path);

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int destroy_ah(ibv_ah* ah);

}  // namespace uroce::verbs
