// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `rdma resource show`.
#include <cerrno>

#include "netlink/rdma/handlers.h"
#include "netlink/rdma/resource_kind.h"

namespace uroce::netlink {

namespace {

void put_summary(MessageBuilder& out, const RdmaModel& model, const DeviceView& device) {
  put_device_handle(out, device);
  const auto table = out.open_table(RDMA_NLDEV_ATTR_RES_SUMMARY);
  const auto put = [&](const char* name, size_t count) {
    const auto entry = out.open_table(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
    out.text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
    out.u64(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count);
    out.close_table(entry);
  };
  put("pd", model.pds(device.index).size());
  put("cq", model.cqs(device.index).size());
  put("qp", model.qps(device.index).size());
  put("cm_id", model.cm_ids(device.index).size());
  put("mr", model.mrs(device.index).size());
  put("ctx", model.contexts(device.index).size());
  put("srq", model.srqs(device.index).size());
  out.close_table(table);
}

template <typename View>
bool is_asked_for(const View& view, bool with_port) {
  if constexpr (ResourceKind<View>::has_port) {
    return !with_port || is_on_port(view);
  } else {
    return true;
  }
}

}  // namespace

int get_resource_summary(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_device(model, request);
  if (!device) return EINVAL;
  put_summary(answer.start(RDMA_NLDEV_CMD_RES_GET), model, *device);
  return 0;
}

int dump_resource_summaries(const RdmaModel& model, const Request&, size_t& position, DumpWriter& writer) {
  const auto devices = model.devices();
  for (; position < devices.size(); ++position) {
    if (!writer.message([&](MessageBuilder& out) { put_summary(out, model, devices[position]); })) return 0;
  }
  return 0;
}

int get_resource(RdmaModel& model, const Request& request, Answer& answer) {
  return with_kind(request.operation(), [&](const auto& kind) {
    const auto device = find_device(model, request);
    const auto id = request.attributes.u32(kind.id);
    const bool with_port = request.attributes.has(RDMA_NLDEV_ATTR_PORT_INDEX);
    if (!device || !id || names_wrong_port(request) || with_port != kind.has_port) return EINVAL;
    for (const auto& view : (model.*kind.list)(device->index)) {
      if (view.number != *id) continue;
      if (!is_asked_for(view, with_port)) return EAGAIN;
      MessageBuilder& out = answer.start(static_cast<rdma_nldev_command>(request.operation()));
      put_device_handle(out, *device);
      put_entry(out, view, request.administrator);
      return 0;
    }
    return ENOENT;
  });
}

int dump_resources(const RdmaModel& model, const Request& request, size_t& position, DumpWriter& writer) {
  return with_kind(request.operation(), [&](const auto& kind) {
    const auto device = find_device(model, request);
    const bool with_port = request.attributes.has(RDMA_NLDEV_ATTR_PORT_INDEX);
    if (!device || names_wrong_port(request)) return EINVAL;
    const auto views = (model.*kind.list)(device->index);
    for (; position < views.size(); ++position) {
      const auto& view = views[position];
      if (!is_asked_for(view, with_port)) continue;
      const auto put = [&](MessageBuilder& out) { put_entry(out, view, request.administrator); };
      if (!writer.entry(*device, kind.table, kind.entry, put)) break;
    }
    return 0;
  });
}

// A driver's private dump of its objects; there is none here.
int refuse_raw_resource(RdmaModel&, const Request&, Answer& answer) {
  answer.text = "uroce has no raw form of its objects";
  return EINVAL;
}

int refuse_raw_resources(const RdmaModel&, const Request&, size_t&, DumpWriter&) {
  return EINVAL;
}

}  // namespace uroce::netlink
