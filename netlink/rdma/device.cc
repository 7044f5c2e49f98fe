// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `rdma dev show`, `rdma dev set`, and the device lists of every RDMA library.
#include <endian.h>

#include <cerrno>

#include "netlink/rdma/handlers.h"

namespace uroce::netlink {

namespace {

constexpr uint8_t kChannelAdapter = 1;  // enum rdma_node_type

void put_device(MessageBuilder& out, const DeviceView& device) {
  put_device_handle(out, device);
  out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
  out.u64(RDMA_NLDEV_ATTR_CAP_FLAGS, device.capability_flags);
  if (!device.firmware.empty()) out.text(RDMA_NLDEV_ATTR_FW_VERSION, device.firmware);
  out.u64(RDMA_NLDEV_ATTR_NODE_GUID, be64toh(device.node_guid_be));
  out.u64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, be64toh(device.sys_image_guid_be));
  out.u8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kChannelAdapter);
  out.u8(RDMA_NLDEV_ATTR_DEV_DIM, 0);
  out.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
}

}  // namespace

int get_device(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_device(model, request);
  if (!device) return EINVAL;
  put_device(answer.start(RDMA_NLDEV_CMD_GET), *device);
  return 0;
}

int dump_devices(const RdmaModel& model, const Request&, size_t& position, DumpWriter& writer) {
  const auto devices = model.devices();
  for (; position < devices.size(); ++position) {
    if (!writer.message([&](MessageBuilder& out) { put_device(out, devices[position]); })) return 0;
  }
  return 0;
}

int set_device(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_device(model, request);
  if (!device) return EINVAL;
  if (const auto name = request.attributes.text(RDMA_NLDEV_ATTR_DEV_NAME)) {
    if (name->empty()) return EINVAL;
    return model.rename(device->index, *name, answer.text);
  }
  if (request.attributes.has(RDMA_NLDEV_NET_NS_FD)) {
    answer.text =
        "a uroce device stays in the network namespace of its netdev; move the netdev, and add a link there";
    return EOPNOTSUPP;
  }
  if (const auto moderation = request.attributes.u8(RDMA_NLDEV_ATTR_DEV_DIM)) {
    if (*moderation > 1) return EINVAL;
    if (*moderation == 0) return 0;
    answer.text = "completions are not moderated here: there are no interrupts to save";
    return EOPNOTSUPP;
  }
  return 0;
}

}  // namespace uroce::netlink
