// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Requests of uroce(1), JSON both ways:
//
//   {"command":"status"}        everything about this daemon, its devices and contexts; an answer has room
//   for
//                               some of many: where there are more it says "next_device" or "next_context",
//                               which the next request takes along as members of the same name
//   {"command":"doctor-facts"}  what bears on whether things work: limits, buffers, permissions
//   {"command":"log"}           the last messages
//   {"command":"link-add","device":"ur0","netdev":"eth0"}   as `rdma link add`, where that program is missing
//   {"command":"link-delete","device":"ur0"}
//   {"command":"link-set","device":"ur0","transport":"udp","min-timeout-ms":100}
//   {"command":"stop"}          tells every client and leaves
//
// Answers carry "ok":true, or "ok":false, "error" with a sentence, and where there is one "errno".
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/uroced/broker.h"
#include "tools/uroced/rdma_cm_server.h"

namespace uroce::daemon {

class Admin {
 public:
  Admin(Registry& registry, Connections& connections, DeviceSet& devices, Contexts& contexts,
        SlotGroup& slots, Broker& broker, ModuleDevices& module, RdmaCmServer& rdma_cm,
        std::function<void(const std::string&)> leave)
      : registry_(registry),
        connections_(connections),
        devices_(devices),
        contexts_(contexts),
        slots_(slots),
        broker_(broker),
        module_(module),
        rdma_cm_(rdma_cm),
        leave_(std::move(leave)) {}

  std::string answer(std::string_view request, uint32_t pid);

 private:
  nlohmann::json carry_out(std::string_view request, uint32_t pid);
  nlohmann::json status(const nlohmann::json& request) const;
  nlohmann::json device_status(uint32_t position) const;
  nlohmann::json context_status(uint32_t slot) const;
  nlohmann::json connection_manager() const;
  nlohmann::json kernel_module() const;
  nlohmann::json warnings() const;
  nlohmann::json doctor_facts() const;
  nlohmann::json add_link(const nlohmann::json& request);
  nlohmann::json delete_link(const nlohmann::json& request);
  nlohmann::json set_link(const nlohmann::json& request);

  Registry& registry_;
  Connections& connections_;
  DeviceSet& devices_;
  Contexts& contexts_;
  SlotGroup& slots_;
  Broker& broker_;
  ModuleDevices& module_;
  RdmaCmServer& rdma_cm_;
  std::function<void(const std::string&)> leave_;
};

}  // namespace uroce::daemon
