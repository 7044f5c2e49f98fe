// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which node below /dev/infiniband belongs to a device, or to the connection manager.
#include <rdma/rdma_user_cm.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "kmod-shim/uapi/uroce_abi.h"
#include "kmod-shim/uapi/uroce_daemon.h"
#include "netlink/rdma/handlers.h"

namespace uroce::netlink {

namespace {

void put_chardev(MessageBuilder& out, dev_t number, uint64_t abi, const std::string& name) {
  out.u64(RDMA_NLDEV_ATTR_CHARDEV, number);
  out.u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
  out.text(RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
}

}  // namespace

int get_chardev(RdmaModel& model, const Request& request, Answer& answer) {
  const auto type = request.attributes.text(RDMA_NLDEV_ATTR_CHARDEV_TYPE);
  if (!type) return EINVAL;
  const bool of_a_device = request.attributes.has(RDMA_NLDEV_ATTR_DEV_INDEX);
  const bool of_a_port = request.attributes.has(RDMA_NLDEV_ATTR_PORT_INDEX);
  const auto device = find_device(model, request);
  if (of_a_device ? !device || names_wrong_port(request) : of_a_port) return EINVAL;

  if (*type == "uverbs") {
    if (!of_a_device) return EOPNOTSUPP;
    if (of_a_port) return EINVAL;
    MessageBuilder& out = answer.start(RDMA_NLDEV_CMD_GET_CHARDEV);
    out.u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, UROCE_DRIVER_ID);
    put_chardev(out, makedev(UROCE_UVERBS_MAJOR, UROCE_UVERBS_MINOR(device->uverbs_minor)), UROCE_ABI_VERSION,
                "uverbs" + std::to_string(device->uverbs_minor));
    return 0;
  }
  if (*type == "rdma_cm" && model.has_rdma_cm()) {
    if (of_a_device) return EOPNOTSUPP;
    put_chardev(answer.start(RDMA_NLDEV_CMD_GET_CHARDEV), makedev(UROCE_RDMA_CM_MAJOR, UROCE_RDMA_CM_MINOR),
                RDMA_USER_CM_ABI_VERSION, "rdma_cm");
    return 0;
  }
  return ENOENT;
}

}  // namespace uroce::netlink
