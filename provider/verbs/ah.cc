// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/ah.h"

#include <cstring>
#include <memory>

#include "provider/verbs/boundary.h"
#include "provider/verbs/pd.h"

namespace uroce::verbs {

int resolve_path(Context& context, const ibv_ah_attr& attributes, engine::PathId& id, engine::Path& path) {
  if (attributes.is_global == 0 || attributes.port_num != 1) return EINVAL;
  wire::Gid destination;
  std::memcpy(destination.raw.data(), attributes.grh.dgid.raw, destination.raw.size());
  if (destination.is_zero()) return EINVAL;
  errno = EINVAL;
  id = context.data().intern_path(attributes.grh.sgid_index, destination, attributes.grh.traffic_class,
                                  attributes.grh.hop_limit, attributes.grh.flow_label, &path);
  return id == engine::PathId{} ? errno : 0;
}

ibv_ah* create_ah(ibv_pd* base, ibv_ah_attr* attributes) {
  ProtectionDomain& pd = ProtectionDomain::of(base);
  Context& context = Context::of(pd.context);
  if (int error = context.unusable(); error != 0) return fail(error);
  auto ah = std::make_unique<AddressHandle>();
  engine::Path path;
  if (int error = resolve_path(context, *attributes, ah->path, path); error != 0) return fail(error);
  ah->use.begin(context);
  ah->context = pd.context;
  ah->pd = base;
  ah->multicast = path.destination.is_multicast();
  pd.users.fetch_add(1, std::memory_order_relaxed);
  return ah.release();
}

int destroy_ah(ibv_ah* base) {
  AddressHandle& ah = AddressHandle::of(base);
  Context& context = Context::of(ah.context);
  if (context.closed()) {
    delete &ah;
    return 0;
  }
  if (int error = context.refused(); error != 0) return error;
  context.data().release_path(ah.path);
  ProtectionDomain::of(ah.pd).users.fetch_sub(1, std::memory_order_acq_rel);
  delete &ah;
  return 0;
}

}  // namespace uroce::verbs
