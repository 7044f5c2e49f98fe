// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Connection management by IP addresses, as the kernel's rdma_cm does it: identifiers that are bound,
// resolved, connected, and the events that come of it. Pure but for Host, which it asks about the machine:
// the time is an argument, MADs and events are polled out. Not thread-safe.
//
// After every input, drain poll_transmit() and poll_event(), then ask next_deadline(). Calls answer 0 or the
// positive errno of the kernel's function of that name; ENOENT: no such identifier.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "tools/uroced/cm/cm_id.h"
#include "tools/uroced/cm/port_table.h"

struct ib_uverbs_qp_attr;

namespace uroce::cm {

// Numbers of enum rdma_cm_event_type, which the UAPI carries.
enum class EventKind : uint32_t {
  address_resolved = 0,
  address_error = 1,
  route_resolved = 2,
  route_error = 3,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  device_removal = 11,
  multicast_join = 12,
  multicast_error = 13,
  address_change = 14,
  timewait_exit = 15,
};

struct IdEvent {
  uint32_t id = 0;
  EventKind kind{};
  int status = 0;         // negative errno, or a reject reason, or a SIDR status
  uint32_t new_id = 0;    // connect_request
  uint32_t group = 0;     // multicast_*
  bool datagram = false;  // which of the two below
  rdma_ucm_conn_param connection{};
  rdma_ucm_ud_param ud{};
};

class RdmaCm {
 public:
  static constexpr uint32_t kMostIds = 65535;  // and the largest number of one

  RdmaCm(Host& host, uint64_t seed);

  // ---- identifiers
  int create(uint16_t port_space, uint8_t qp_type, uint32_t& id);
  // One of an earlier worker: it can be asked and destroyed, nothing else.
  void restore_dead(uint32_t id, uint16_t port_space);
  void destroy(Time now, uint32_t id);
  // `privileged`: may have ports below 1024.
  int bind(uint32_t id, const Address& address, bool privileged);
  int resolve_address(Time now, uint32_t id, const Address& source, const Address& destination,
                      uint32_t timeout_ms, bool privileged);
  int resolve_route(uint32_t id);
  int listen(uint32_t id);
  int connect(Time now, uint32_t id, const rdma_ucm_conn_param& parameters);
  // Active side, after connect_response: without parameters.
  int accept(Time now, uint32_t id, const rdma_ucm_conn_param* parameters);
  int reject(Time now, uint32_t id, uint8_t reason, std::span<const uint8_t> private_data);
  int disconnect(Time now, uint32_t id);
  int notify(Time now, uint32_t id, uint32_t event);
  int set_option(uint32_t id, uint32_t level, uint32_t name, std::span<const std::byte> value);
  int init_qp_attributes(uint32_t id, uint32_t qp_state, ib_uverbs_qp_attr& out) const;
  // Its event comes at once: who hears the group is the affair of the QPs that are attached to it.
  int join(uint32_t id, const Address& address, uint32_t& group);
  int leave(uint32_t id, uint32_t group);

  const CmId* find(uint32_t id) const;
  template <typename Visit>  // Visit(const CmId&)
  void for_each(Visit&& visit) const {
    for (const auto& [number, id] : ids_) visit(id);
  }

  size_t count() const { return ids_.size(); }

  // ---- the world
  void on_mad(Time now, const Route& from, std::span<const std::byte> mad);
  void on_deadline(Time now);
  void on_device_removed(uint32_t device);

  // ---- out
  std::optional<Outgoing> poll_transmit() { return ib_.poll_transmit(); }
  std::optional<IdEvent> poll_event();
  std::optional<Time> next_deadline() const;

  const IbCm::Counters& counters() const { return ib_.counters(); }

 private:
  CmId* edit(uint32_t id);
  // nullptr: all numbers are taken.
  CmId* make(uint16_t port_space, QpType qp_type);
  int take_port(CmId& id, bool privileged);
  int bind_to(CmId& id, const Address& address, bool privileged);
  PortUser user_of(const CmId& id) const;
  // nullopt with errno.
  std::optional<Way> find_way(const CmId& id) const;
  void continue_query(Time now, CmId& id);
  void follow_way(Time now, CmId& id, const Way& way);
  void end_query(CmId& id, int error);
  int connect_datagram(Time now, CmId& id, const rdma_ucm_conn_param& parameters);
  int answer(Time now, CmId& id, const rdma_ucm_conn_param& parameters);
  int refuse(Time now, CmId& id, wire::CmRejectReason reason, std::span<const uint8_t> private_data);
  // How long a QP waits for an acknowledgement (4.096 us * 2^n) of a device with this delay.
  static uint8_t ack_timeout(uint8_t ca_ack_delay);

  void emit(uint32_t id, EventKind kind, int status = 0);
  void on_ib_event(Time now, const Event& event);
  void on_request(Time now, const Event& event);
  void refuse_request(Time now, const Event& event);
  void on_reply(const Event& event, CmId& id);
  void on_sidr_reply(const Event& event, CmId& id);
  const CmId* find_listener(uint64_t service_id, const wire::CmIpHeader& header, QpType type,
                            uint32_t ifindex) const;
  void fill_address(const CmId& id, const wire::Gid& destination, ib_uverbs_ah_attr& out) const;
  void drain(Time now);

  Host& host_;
  IbCm ib_;
  std::mt19937_64 random_;
  PortTable ports_;
  uint32_t next_id_ = 1, next_group_ = 1;
  std::unordered_map<uint32_t, CmId> ids_;
  std::unordered_map<Endpoint, uint32_t> by_endpoint_;
  std::vector<uint32_t> querying_;
  std::deque<IdEvent> events_;
};

}  // namespace uroce::cm
