// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `rdma system show`, `rdma system set`, and libibverbs' question whether fork() is safe.
#include <cerrno>

#include "netlink/rdma/handlers.h"

namespace uroce::netlink {

namespace {

constexpr uint8_t kExclusive = 0, kShared = 1;

}  // namespace

int get_system(RdmaModel&, const Request&, Answer& answer) {
  MessageBuilder& out = answer.start(RDMA_NLDEV_CMD_SYS_GET);
  out.u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kExclusive);
  // Nothing is pinned: the engine reads and writes through the page tables of the process that registered the
  // memory.
  out.u8(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
  return 0;
}

int set_system(RdmaModel&, const Request& request, Answer& answer) {
  const auto mode = request.attributes.u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE);
  if (!mode || *mode > kShared) return EINVAL;
  if (*mode == kExclusive) return 0;
  answer.text = "uroce devices belong to one network namespace each; they cannot be shared";
  return EOPNOTSUPP;
}

}  // namespace uroce::netlink
