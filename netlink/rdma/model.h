// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the RDMA netlink handlers ask of the daemon: devices, links, resources, counters. The handlers are
// pure code over this interface; uroced implements it, tests use a fake. All calls come from the daemon's one
// thread. Errors are positive errnos, the kernel's own where a kernel handler has one; `message` becomes the
// extended ACK text (may stay empty).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "provider/wire/address.h"

namespace uroce::netlink {

struct DeviceView {
  uint32_t index = 0;  // RDMA_NLDEV_ATTR_DEV_INDEX, never reused while the daemon lives
  std::string name;
  uint64_t node_guid_be = 0;  // as in sysfs: network order in memory
  uint64_t sys_image_guid_be = 0;
  std::string firmware;
  uint64_t capability_flags = 0;
  uint32_t uverbs_minor = 0;  // uverbsN
  uint32_t netdev_ifindex = 0;
  std::string netdev_name;
  uint8_t port_state = 1;      // enum ib_port_state: 4 ACTIVE, 1 DOWN
  uint8_t physical_state = 3;  // 5 LinkUp, 3 Disabled
};

struct PdView {
  uint32_t number, context, users, pid;
};
struct ContextView {
  uint32_t number, pid;
};
struct CqView {
  uint32_t number, context, entries, users, pid;
};
struct MrView {
  uint32_t number, key, pd, pid;
  uint64_t iova, length;
};
struct SrqView {
  uint32_t number, pd, cq, pid;
  bool xrc;
  bool has_cq;
  std::vector<uint32_t> qps;
};
struct QpView {
  uint32_t number = 0, pd = 0, pid = 0;
  uint32_t remote_number = 0, rq_psn = 0, sq_psn = 0;
  uint8_t type = 0;  // enum ib_qp_type: 1 GSI, 2 RC, 3 UC, 4 UD, 9 XRC_INI, 10 XRC_TGT
  uint8_t state = 0;
  bool connected = false;  // remote number and rq_psn are valid
};
struct CmIdView {
  uint32_t number = 0, local_qpn = 0, pid = 0;
  uint8_t qp_type = 0, state = 0;            // enum rdma_cm_state
  uint16_t port_space = 0;                   // RDMA_PS_*
  std::vector<uint8_t> source, destination;  // sockaddr_storage bytes, may be empty
};
struct CounterView {
  std::string name;
  uint64_t value;
};

class RdmaModel {
 public:
  virtual std::vector<DeviceView> devices() const = 0;

  // `rdma link add NAME type TYPE netdev NETDEV`: EINVAL type, ENODEV netdev, EEXIST name ...
  virtual int new_link(const std::string& name, const std::string& type, const std::string& netdev,
                       std::string& message) = 0;
  virtual int delete_link(uint32_t device_index, std::string& message) = 0;
  virtual int rename(uint32_t device_index, const std::string& name, std::string& message) = 0;

  virtual std::vector<PdView> pds(uint32_t device_index) const = 0;
  virtual std::vector<ContextView> contexts(uint32_t device_index) const = 0;
  virtual std::vector<CqView> cqs(uint32_t device_index) const = 0;
  virtual std::vector<MrView> mrs(uint32_t device_index) const = 0;
  virtual std::vector<SrqView> srqs(uint32_t device_index) const = 0;
  virtual std::vector<QpView> qps(uint32_t device_index) const = 0;
  virtual std::vector<CmIdView> cm_ids(uint32_t device_index) const = 0;
  virtual std::vector<CounterView> counters(uint32_t device_index) const = 0;

  // GET_CHARDEV of type "rdma_cm": false when the daemon offers none.
  virtual bool has_rdma_cm() const = 0;

 protected:
  ~RdmaModel() = default;
};

}  // namespace uroce::netlink
