// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Multicast groups of UD queue pairs: the control side counts, the host joins, the engine delivers.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provider/verbs/qp.h"

namespace uroce::verbs {

namespace {

wire::Gid gid_of(const ibv_gid* from) {
  wire::Gid to;
  std::memcpy(to.raw.data(), from->raw, to.raw.size());
  return to;
}

int detach_command(QueuePair& qp, const wire::Gid& group) {
  ib_uverbs_detach_mcast request{};
  std::memcpy(request.gid, group.raw.data(), sizeof(request.gid));
  request.qp_handle = qp.base.handle;
  return call(qp.owner->port(), IB_USER_VERBS_CMD_DETACH_MCAST, request);
}

}  // namespace

// Attaching twice is once, as in the kernel.
int attach_mcast(ibv_qp* base, const ibv_gid* gid, uint16_t lid) {
  QueuePair& qp = QueuePair::of(base);
  Context& context = *qp.owner;
  if (int error = context.unusable(); error != 0) return error;
  const wire::Gid group = gid_of(gid);
  if (qp.type != engine::QpType::ud || !group.is_multicast()) return EINVAL;
  const std::lock_guard guard(qp.shared->control);
  std::vector<wire::Gid>& groups = qp.shared->groups;
  if (std::find(groups.begin(), groups.end(), group) != groups.end()) return 0;
  groups.reserve(groups.size() + 1);

  ib_uverbs_attach_mcast request{};
  std::memcpy(request.gid, group.raw.data(), sizeof(request.gid));
  request.qp_handle = base->handle;
  request.mlid = lid;
  if (int error = call(context.port(), IB_USER_VERBS_CMD_ATTACH_MCAST, request); error != 0) return error;
  int error = context.data().join_group(group);
  if (error == 0) {
    error = context.data().control(
        [&](engine::Engine& engine, engine::Time) { return engine.attach_multicast(qp.queue, group); });
    if (error != 0) context.data().leave_group(group);
  }
  if (error != 0) {
    detach_command(qp, group);
    return error;
  }
  groups.push_back(group);
  return 0;
}

int detach_mcast(ibv_qp* base, const ibv_gid* gid, uint16_t) {
  QueuePair& qp = QueuePair::of(base);
  Context& context = *qp.owner;
  if (int error = context.refused(); error != 0) return error;
  const wire::Gid group = gid_of(gid);
  const std::lock_guard guard(qp.shared->control);
  std::vector<wire::Gid>& groups = qp.shared->groups;
  const auto found = std::find(groups.begin(), groups.end(), group);
  if (found == groups.end()) return EINVAL;
  const int error = context.data().control(
      [&](engine::Engine& engine, engine::Time) { return engine.detach_multicast(qp.queue, group); });
  if (error != 0) return error;
  groups.erase(found);
  context.data().leave_group(group);
  detach_command(qp, group);
  return 0;
}

}  // namespace uroce::verbs
