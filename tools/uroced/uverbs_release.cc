// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

namespace {

// At most five objects that this one uses; 0 where there is none.
std::array<uint32_t, 5> parts_of(const ObjectRecord& object) {
  switch (object.kind) {
    case ObjectKind::mr: return {object.mr.pd};
    case ObjectKind::mw: return {object.mw.pd};
    case ObjectKind::srq: return {object.srq.pd, object.srq.cq, object.srq.xrcd};
    case ObjectKind::qp:
      if (object.qp.opened_of != 0) return {object.qp.xrcd, object.qp.opened_of};
      return {object.qp.pd, object.qp.send_cq, object.qp.recv_cq, object.qp.srq, object.qp.xrcd};
    case ObjectKind::mcast: return {object.mcast.qp};
    case ObjectKind::free:
    case ObjectKind::pd:
    case ObjectKind::cq:
    case ObjectKind::xrcd: return {};
  }
  return {};
}

}  // namespace

void release_object(Registry& registry, uint32_t index) {
  const ObjectRecord& object = registry.object(index);
  for (const uint32_t part : parts_of(object)) registry.add_user(part, -1);
  if (object.kind == ObjectKind::qp && object.qp.opened_of == 0)
    registry.give_qpn(object.slot, object.qp.qpn);
  registry.destroy_object(index);
}

}  // namespace uroce::daemon
