// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The daemon as the netlink handlers see it.
#pragma once

#include "netlink/rdma/model.h"
#include "tools/uroced/contexts.h"
#include "tools/uroced/rdma_cm_server.h"

namespace uroce::daemon {

// Whether there is a connection manager behind role RDMA_CM.
constexpr bool kHasRdmaCm = true;

class DaemonModel final : public netlink::RdmaModel {
 public:
  DaemonModel(Registry& registry, DeviceSet& devices, Contexts& contexts, RdmaCmServer& rdma_cm)
      : registry_(registry), devices_(devices), contexts_(contexts), rdma_cm_(rdma_cm) {}

  std::vector<netlink::DeviceView> devices() const override;
  int new_link(const std::string& name, const std::string& type, const std::string& netdev,
               std::string& message) override;
  int delete_link(uint32_t device_index, std::string& message) override;
  int rename(uint32_t device_index, const std::string& name, std::string& message) override;
  std::vector<netlink::PdView> pds(uint32_t device_index) const override;
  std::vector<netlink::ContextView> contexts(uint32_t device_index) const override;
  std::vector<netlink::CqView> cqs(uint32_t device_index) const override;
  std::vector<netlink::MrView> mrs(uint32_t device_index) const override;
  std::vector<netlink::SrqView> srqs(uint32_t device_index) const override;
  std::vector<netlink::QpView> qps(uint32_t device_index) const override;
  std::vector<netlink::CmIdView> cm_ids(uint32_t device_index) const override;
  std::vector<netlink::CounterView> counters(uint32_t device_index) const override;
  bool has_rdma_cm() const override { return kHasRdmaCm; }

 private:
  template <typename Visit>  // Visit(uint32_t slot, const ContextRecord&, uint32_t index, const
                             // ObjectRecord&)
  void for_each_object(uint32_t device_index, ObjectKind kind, Visit&& visit) const {
    const auto position = devices_.by_index(device_index);
    if (!position) return;
    contexts_.for_each([&](uint32_t slot, const ContextRecord& context) {
      if (context.device != *position) return;
      registry_.for_each_object(slot, [&](uint32_t index, const ObjectRecord& object) {
        if (object.kind == kind) visit(slot, context, index, object);
      });
    });
  }

  Registry& registry_;
  DeviceSet& devices_;
  Contexts& contexts_;
  RdmaCmServer& rdma_cm_;
};

}  // namespace uroce::daemon
