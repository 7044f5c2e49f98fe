// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/request.h"

namespace uroce::netlink {

std::optional<DeviceView> find_device(const RdmaModel& model, const Request& request) {
  const auto index = request.attributes.u32(RDMA_NLDEV_ATTR_DEV_INDEX);
  if (!index) return std::nullopt;
  for (DeviceView& device : model.devices()) {
    if (device.index == *index) return std::move(device);
  }
  return std::nullopt;
}

void put_device_handle(MessageBuilder& out, const DeviceView& device) {
  out.u32(RDMA_NLDEV_ATTR_DEV_INDEX, device.index);
  out.text(RDMA_NLDEV_ATTR_DEV_NAME, device.name);
}

}  // namespace uroce::netlink
