// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A daemon with two devices and a few objects, which remembers what it was told to do.
#pragma once

#include <cerrno>

#include "netlink/rdma/model.h"

namespace uroce::netlink {

class FakeModel final : public RdmaModel {
 public:
  FakeModel() {
    DeviceView first;
    first.index = 3;
    first.name = "ur0";
    first.node_guid_be = 0x0807060504030201u;
    first.sys_image_guid_be = first.node_guid_be;
    first.firmware = "0.1.0";
    first.capability_flags = 0x1122334455667788u;
    first.uverbs_minor = 2;
    first.netdev_ifindex = 7;
    first.netdev_name = "eth0";
    first.port_state = 4;
    first.physical_state = 5;
    DeviceView second = first;
    second.index = 9;
    second.name = "ur1";
    second.netdev_ifindex = 0;
    devices_ = {first, second};
    pds_ = {{11, 1, 2, 100}};
    contexts_ = {{1, 100}};
    cqs_ = {{21, 1, 255, 3, 100}};
    mrs_ = {{31, 0x1f00, 11, 100, 0x7000, 4096}};
    srqs_ = {{41, 11, 21, 100, true, true, {5, 4, 9}}};
    QpView qp;
    qp.number = 0x4011;
    qp.pd = 11;
    qp.pid = 100;
    qp.remote_number = 0x8022;
    qp.rq_psn = 1;
    qp.sq_psn = 2;
    qp.type = 2;
    qp.state = 3;
    qp.connected = true;
    QpView fresh;
    fresh.number = 0x4012;
    fresh.pd = 11;
    fresh.pid = 100;
    fresh.type = 4;
    qps_ = {qp, fresh};
    CmIdView id;
    id.number = 51;
    id.local_qpn = 0x4011;
    id.pid = 100;
    id.qp_type = 2;
    id.state = 6;
    id.port_space = 0x106;
    id.source = {2, 0, 0x12, 0x34, 192, 0, 2, 1};
    cm_ids_ = {id};
    counters_ = {{"sent_pkts", 1234567890123}, {"rcvd_pkts", 5}};
  }

  std::vector<DeviceView> devices() const override { return devices_; }
  int new_link(const std::string& name, const std::string& type, const std::string& netdev,
               std::string& message) override {
    told_ = "new " + name + " " + type + " " + netdev;
    message = message_;
    return error_;
  }
  int delete_link(uint32_t device_index, std::string& message) override {
    told_ = "delete " + std::to_string(device_index);
    message = message_;
    return error_;
  }
  int rename(uint32_t device_index, const std::string& name, std::string& message) override {
    told_ = "rename " + std::to_string(device_index) + " " + name;
    message = message_;
    return error_;
  }
  std::vector<PdView> pds(uint32_t device) const override { return of(device, pds_); }
  std::vector<ContextView> contexts(uint32_t device) const override { return of(device, contexts_); }
  std::vector<CqView> cqs(uint32_t device) const override { return of(device, cqs_); }
  std::vector<MrView> mrs(uint32_t device) const override { return of(device, mrs_); }
  std::vector<SrqView> srqs(uint32_t device) const override { return of(device, srqs_); }
  std::vector<QpView> qps(uint32_t device) const override { return of(device, qps_); }
  std::vector<CmIdView> cm_ids(uint32_t device) const override { return of(device, cm_ids_); }
  std::vector<CounterView> counters(uint32_t device) const override { return of(device, counters_); }
  bool has_rdma_cm() const override { return has_rdma_cm_; }

  std::vector<DeviceView> devices_;
  std::vector<PdView> pds_;
  std::vector<ContextView> contexts_;
  std::vector<CqView> cqs_;
  std::vector<MrView> mrs_;
  std::vector<SrqView> srqs_;
  std::vector<QpView> qps_;
  std::vector<CmIdView> cm_ids_;
  std::vector<CounterView> counters_;
  bool has_rdma_cm_ = true;
  std::string told_, message_;
  int error_ = 0;

 private:
  // All objects are the first device's.
  template <typename View>
  std::vector<View> of(uint32_t device, const std::vector<View>& views) const {
    return !devices_.empty() && device == devices_.front().index ? views : std::vector<View>();
  }
};

}  // namespace uroce::netlink
