// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `rdma link add`, `rdma link delete`, `rdma link show`.
#include <cerrno>

#include "netlink/rdma/handlers.h"

namespace uroce::netlink {

namespace {

void put_port(MessageBuilder& out, const DeviceView& device) {
  put_device_handle(out, device);
  out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
  out.u8(RDMA_NLDEV_ATTR_PORT_STATE, device.port_state);
  out.u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, device.physical_state);
  if (device.netdev_ifindex == 0) return;
  out.u32(RDMA_NLDEV_ATTR_NDEV_INDEX, device.netdev_ifindex);
  out.text(RDMA_NLDEV_ATTR_NDEV_NAME, device.netdev_name);
}

}  // namespace

int new_link(RdmaModel& model, const Request& request, Answer& answer) {
  const auto name = request.attributes.text(RDMA_NLDEV_ATTR_DEV_NAME);
  const auto type = request.attributes.text(RDMA_NLDEV_ATTR_LINK_TYPE);
  const auto netdev = request.attributes.text(RDMA_NLDEV_ATTR_NDEV_NAME);
  if (!name || !type || !netdev) {
    answer.text = "a link needs a name, a type and a netdev";
    return EINVAL;
  }
  return model.new_link(*name, *type, *netdev, answer.text);
}

int delete_link(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_device(model, request);
  return device ? model.delete_link(device->index, answer.text) : EINVAL;
}

int get_port(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_device(model, request);
  if (!device || !request.attributes.has(RDMA_NLDEV_ATTR_PORT_INDEX) || names_wrong_port(request))
    return EINVAL;
  // The kernel answers with the type of GET, too.
  put_port(answer.start(RDMA_NLDEV_CMD_GET), *device);
  return 0;
}

int dump_ports(const RdmaModel& model, const Request& request, size_t& position, DumpWriter& writer) {
  const auto device = find_device(model, request);
  if (!device) return EINVAL;
  if (position == 0 && writer.message([&](MessageBuilder& out) { put_port(out, *device); })) position++;
  return 0;
}

}  // namespace uroce::netlink
