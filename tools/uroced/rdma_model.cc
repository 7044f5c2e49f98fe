// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/rdma_model.h"

#include <algorithm>
#include <map>

#include "tools/uroced/uverbs_limits.h"

namespace uroce::daemon {

namespace {

constexpr uint8_t kXrcTarget = 10;

}  // namespace

std::vector<netlink::DeviceView> DaemonModel::devices() const {
  std::vector<netlink::DeviceView> views;
  devices_.for_each([&](uint32_t position) {
    const DeviceFacts facts = devices_.facts(position);
    netlink::DeviceView view;
    view.index = facts.index;
    view.name = facts.name;
    view.node_guid_be = view.sys_image_guid_be = facts.node_guid_be;
    view.firmware = facts.firmware;
    view.capability_flags = kDeviceCapabilities;
    view.uverbs_minor = facts.uverbs_minor;
    view.netdev_ifindex = facts.ifindex;
    view.netdev_name = facts.netdev;
    view.port_state = facts.up ? 4 : 1;
    view.physical_state = facts.up ? 5 : 3;
    views.push_back(std::move(view));
  });
  return views;
}

int DaemonModel::new_link(const std::string& name, const std::string& type, const std::string& netdev,
                          std::string& message) {
  return devices_.add(name, type, netdev, message);
}

int DaemonModel::delete_link(uint32_t device_index, std::string& message) {
  const auto position = devices_.by_index(device_index);
  if (!position) {
    message = "there is no such device";
    return ENODEV;
  }
  devices_.remove(*position, "asked for");
  return 0;
}

int DaemonModel::rename(uint32_t device_index, const std::string& name, std::string& message) {
  const auto position = devices_.by_index(device_index);
  if (!position) {
    message = "there is no such device";
    return ENODEV;
  }
  return devices_.rename(*position, name, message);
}

std::vector<netlink::PdView> DaemonModel::pds(uint32_t device_index) const {
  std::vector<netlink::PdView> views;
  for_each_object(device_index, ObjectKind::pd,
                  [&](uint32_t slot, const ContextRecord& context, uint32_t index, const ObjectRecord& o) {
                    views.push_back({index, slot, o.users, context.pid});
                  });
  return views;
}

std::vector<netlink::ContextView> DaemonModel::contexts(uint32_t device_index) const {
  std::vector<netlink::ContextView> views;
  const auto position = devices_.by_index(device_index);
  contexts_.for_each([&](uint32_t slot, const ContextRecord& context) {
    if (position && context.device == *position) views.push_back({slot, context.pid});
  });
  return views;
}

std::vector<netlink::CqView> DaemonModel::cqs(uint32_t device_index) const {
  std::vector<netlink::CqView> views;
  for_each_object(device_index, ObjectKind::cq,
                  [&](uint32_t slot, const ContextRecord& context, uint32_t index, const ObjectRecord& o) {
                    views.push_back({index, slot, o.cq.entries, o.users, context.pid});
                  });
  return views;
}

std::vector<netlink::MrView> DaemonModel::mrs(uint32_t device_index) const {
  std::vector<netlink::MrView> views;
  for_each_object(device_index, ObjectKind::mr,
                  [&](uint32_t, const ContextRecord& context, uint32_t index, const ObjectRecord& o) {
                    views.push_back({index, o.mr.key, o.mr.pd, context.pid, o.mr.iova, o.mr.length});
                  });
  return views;
}

std::vector<netlink::SrqView> DaemonModel::srqs(uint32_t device_index) const {
  std::map<uint32_t, std::vector<uint32_t>> users;
  for_each_object(device_index, ObjectKind::qp,
                  [&](uint32_t, const ContextRecord&, uint32_t, const ObjectRecord& o) {
                    if (o.qp.srq != 0) users[o.qp.srq].push_back(o.qp.qpn);
                  });
  std::vector<netlink::SrqView> views;
  for_each_object(device_index, ObjectKind::srq,
                  [&](uint32_t, const ContextRecord& context, uint32_t index, const ObjectRecord& o) {
                    views.push_back({index, o.srq.pd, o.srq.cq, context.pid, o.srq.xrcd != 0, o.srq.cq != 0,
                                     users[index]});
                  });
  return views;
}

std::vector<netlink::QpView> DaemonModel::qps(uint32_t device_index) const {
  std::vector<netlink::QpView> views;
  for_each_object(device_index, ObjectKind::qp,
                  [&](uint32_t slot, const ContextRecord& context, uint32_t, const ObjectRecord& o) {
                    if (o.qp.opened_of != 0) return;
                    netlink::QpView view;
                    view.number = o.qp.qpn;
                    view.pd = o.qp.pd;
                    view.pid = context.pid;
                    view.type = static_cast<uint8_t>(o.qp.type);
                    view.state = o.qp.attributes.qp_state;
                    view.rq_psn = o.qp.attributes.rq_psn;
                    view.sq_psn = o.qp.attributes.sq_psn;
                    view.remote_number = o.qp.attributes.dest_qp_num;
                    view.connected =
                        o.qp.type == 2 || o.qp.type == 3 || o.qp.type == 9 || o.qp.type == kXrcTarget;
                    // What the process itself says about the QP now, where it does; it may have gone to ERR
                    // by itself.
                    const uroce_slot_qp now = contexts_.page(slot).qp(o.qp.qpn % kQpIndices);
                    if (now.state != 0 && now.state <= 6) {
                      view.state = static_cast<uint8_t>(now.state);
                      view.rq_psn = now.rq_psn & 0xffffff;
                      view.sq_psn = now.sq_psn & 0xffffff;
                    }
                    views.push_back(view);
                  });
  return views;
}

std::vector<netlink::CounterView> DaemonModel::counters(uint32_t device_index) const {
  std::vector<netlink::CounterView> views;
  const auto position = devices_.by_index(device_index);
  if (!position) return views;
  const CounterValues values = contexts_.counters(*position);
  for (uint32_t i = 0; i < UROCE_CNT_COUNT; ++i) views.push_back({std::string(counter_name(i)), values[i]});
  return views;
}

std::vector<netlink::CmIdView> DaemonModel::cm_ids(uint32_t device_index) const {
  std::vector<netlink::CmIdView> out;
  const auto position = devices_.by_index(device_index);
  rdma_cm_.manager().for_each([&](const cm::CmId& id) {
    if (!position || !id.port || id.port->device != *position) return;
    netlink::CmIdView view;
    view.number = id.number;
    view.local_qpn = id.qpn;
    view.pid = rdma_cm_.pid_of(id.number);
    view.qp_type = static_cast<uint8_t>(id.qp_type);
    view.state = static_cast<uint8_t>(id.state);
    view.port_space = id.port_space;
    const auto bytes_of = [](const cm::Address& address) {
      std::byte storage[sizeof(sockaddr_storage)] = {};
      const auto* bytes = reinterpret_cast<const uint8_t*>(storage);
      return cm::write_sockaddr(address, storage) == 0 ? std::vector<uint8_t>()
                                                       : std::vector<uint8_t>(bytes, bytes + sizeof storage);
    };
    view.source = bytes_of(id.source);
    view.destination = bytes_of(id.destination);
    out.push_back(std::move(view));
  });
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return out;
}

}  // namespace uroce::daemon
