// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `rdma statistic`: the counters of a link. Counters of their own for single QPs need hardware that counts
// per QP; those commands answer as for any device without it.
#include <cerrno>

#include "netlink/rdma/handlers.h"
#include "netlink/rdma/resource_kind.h"

namespace uroce::netlink {

namespace {

constexpr const char* kNoCounters = "uroce counts per link, not per QP";

// STAT_* commands name a device and a port.
std::optional<DeviceView> find_link(const RdmaModel& model, const Request& request) {
  if (!request.attributes.has(RDMA_NLDEV_ATTR_PORT_INDEX) || names_wrong_port(request)) return std::nullopt;
  return find_device(model, request);
}

MessageBuilder& start_for_link(Answer& answer, rdma_nldev_command command, const DeviceView& device) {
  MessageBuilder& out = answer.start(command);
  put_device_handle(out, device);
  out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
  return out;
}

int get_link_counters(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_link(model, request);
  if (!device) return EINVAL;
  MessageBuilder& out = start_for_link(answer, RDMA_NLDEV_CMD_STAT_GET, *device);
  const auto table = out.open_table(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  for (const CounterView& counter : model.counters(device->index)) {
    const auto entry = out.open_table(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
    out.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, counter.name);
    out.u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, counter.value);
    out.close_table(entry);
  }
  out.close_table(table);
  return 0;
}

int get_qp_mode(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_link(model, request);
  if (request.attributes.has(RDMA_NLDEV_ATTR_STAT_COUNTER_ID)) return device ? ENOENT : EINVAL;
  if (!device || !request.attributes.has(RDMA_NLDEV_ATTR_STAT_MODE)) return EINVAL;
  start_for_link(answer, RDMA_NLDEV_CMD_STAT_GET, *device)
      .u32(RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_NONE);
  return 0;
}

int get_mr_statistic(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_device(model, request);
  const auto id = request.attributes.u32(RDMA_NLDEV_ATTR_RES_MRN);
  if (!device || !id || request.attributes.has(RDMA_NLDEV_ATTR_PORT_INDEX)) return EINVAL;
  for (const MrView& mr : model.mrs(device->index)) {
    if (mr.number != *id) continue;
    MessageBuilder& out = answer.start(RDMA_NLDEV_CMD_STAT_GET);
    put_device_handle(out, *device);
    out.u32(RDMA_NLDEV_ATTR_RES_MRN, mr.number);
    return 0;
  }
  return ENOENT;
}

}  // namespace

int get_statistic(RdmaModel& model, const Request& request, Answer& answer) {
  const auto resource = request.attributes.u32(RDMA_NLDEV_ATTR_STAT_RES);
  if (!resource) return get_link_counters(model, request, answer);
  if (*resource == RDMA_NLDEV_ATTR_RES_QP) return get_qp_mode(model, request, answer);
  if (*resource == RDMA_NLDEV_ATTR_RES_MR) return get_mr_statistic(model, request, answer);
  return EINVAL;
}

int dump_statistics(const RdmaModel& model, const Request& request, size_t& position, DumpWriter& writer) {
  const auto resource = request.attributes.u32(RDMA_NLDEV_ATTR_STAT_RES);
  const auto device = find_device(model, request);
  if (!resource || !device || names_wrong_port(request)) return EINVAL;
  if (*resource == RDMA_NLDEV_ATTR_RES_QP) return 0;
  if (*resource != RDMA_NLDEV_ATTR_RES_MR) return EINVAL;
  const auto mrs = model.mrs(device->index);
  for (; position < mrs.size(); ++position) {
    const auto put = [&](MessageBuilder& out) { out.u32(RDMA_NLDEV_ATTR_RES_MRN, mrs[position].number); };
    if (!writer.entry(*device, kMrs.table, kMrs.entry, put)) break;
  }
  return 0;
}

int set_statistic(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_link(model, request);
  const auto mode = request.attributes.u32(RDMA_NLDEV_ATTR_STAT_MODE);
  if (!device || (!mode && !request.attributes.has(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS))) return EINVAL;
  if (mode) {
    if (request.attributes.u32(RDMA_NLDEV_ATTR_STAT_RES) != RDMA_NLDEV_ATTR_RES_QP) return EINVAL;
    answer.text = kNoCounters;
    return EOPNOTSUPP;
  }
  // The list names the optional counters that shall run; all of ours always do.
  if (request.attributes.has_entries(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS)) {
    answer.text = "no counter of uroce is optional: all of them always run";
    return EINVAL;
  }
  start_for_link(answer, RDMA_NLDEV_CMD_STAT_SET, *device);
  return 0;
}

int delete_statistic(RdmaModel& model, const Request& request, Answer& answer) {
  const auto& attributes = request.attributes;
  if (!find_link(model, request) || attributes.u32(RDMA_NLDEV_ATTR_STAT_RES) != RDMA_NLDEV_ATTR_RES_QP ||
      !attributes.has(RDMA_NLDEV_ATTR_STAT_COUNTER_ID) || !attributes.has(RDMA_NLDEV_ATTR_RES_LQPN)) {
    return EINVAL;
  }
  answer.text = kNoCounters;
  return ENOENT;
}

int get_statistic_status(RdmaModel& model, const Request& request, Answer& answer) {
  const auto device = find_link(model, request);
  if (!device) return EINVAL;
  MessageBuilder& out = start_for_link(answer, RDMA_NLDEV_CMD_STAT_GET_STATUS, *device);
  const auto table = out.open_table(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  uint32_t index = 0;
  for (const CounterView& counter : model.counters(device->index)) {
    const auto entry = out.open_table(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
    out.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, counter.name);
    out.u32(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, index++);
    out.close_table(entry);
  }
  out.close_table(table);
  return 0;
}

}  // namespace uroce::netlink
