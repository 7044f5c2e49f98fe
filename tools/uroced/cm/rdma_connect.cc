// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What an identifier's owner does with a connection.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>

#include "tools/uroced/cm/rdma_cm.h"

namespace uroce::cm {

namespace {

// What the kernel's rdma_cm uses.
constexpr uint8_t kResponseTimeout = 20;  // 4.3 s
constexpr uint8_t kMostRetries = 15;
constexpr uint8_t kSidrTimeout = 20;
constexpr uint8_t kPacketLifeTime = 16;
constexpr uint8_t kMostRetryCount = 7;  // 3 bits
constexpr uint32_t kQpnMask = 0xffffff;

std::span<const uint8_t> private_data(const rdma_ucm_conn_param& parameters) {
  return {parameters.private_data, parameters.private_data_len};
}

wire::CmTransport transport_of(QpType type) {
  switch (type) {
    case QpType::uc: return wire::CmTransport::uc;
    case QpType::xrc_ini:
    case QpType::xrc_tgt: return wire::CmTransport::extended;
    case QpType::rc:
    case QpType::ud: break;
  }
  return wire::CmTransport::rc;
}

template <typename Message>
bool put_ip_header(const CmId& id, Message& message) {
  wire::CmIpHeader header;
  header.ipv4 = id.source.family == AF_INET;
  header.source_port = id.source.port;
  header.source = id.source.ip;
  header.destination = id.destination.ip;
  std::array<uint8_t, wire::kIpHeaderBytes> bytes{};
  wire::write_ip_header(header, bytes);
  return message.private_data.put(bytes);
}

}  // namespace

// As the kernel's ib_cm does it: the sum of both exponents' times, rounded up by one where they are close.
uint8_t RdmaCm::ack_timeout(uint8_t ca_ack_delay) {
  constexpr uint8_t kThereAndBack = kPacketLifeTime + 1;
  const auto [shorter, longer] = std::minmax(ca_ack_delay, kThereAndBack);
  return static_cast<uint8_t>(longer + (shorter >= longer - 1 ? 1 : 0));
}

int RdmaCm::connect(Time now, uint32_t number, const rdma_ucm_conn_param& parameters) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (id->state != IdState::route_resolved) return EINVAL;
  if (id->is_ud()) return connect_datagram(now, *id, parameters);
  wire::CmReq request;
  if (!put_ip_header(*id, request) ||
      !request.private_data.put(private_data(parameters), wire::kIpHeaderBytes))
    return EINVAL;
  request.service_id = wire::ip_service_id(id->port_space, id->destination.port);
  const DeviceView device = host_.device(id->port->device);
  request.local_ca_guid = __builtin_bswap64(device.node_guid_be);
  request.local_qpn = parameters.qp_num & kQpnMask;
  request.responder_resources = parameters.responder_resources;
  request.initiator_depth = parameters.initiator_depth;
  request.remote_response_timeout = request.local_response_timeout = kResponseTimeout;
  request.max_cm_retries = kMostRetries;
  request.transport = transport_of(id->qp_type);
  request.extended_transport = request.transport == wire::CmTransport::extended ? 1 : 0;
  request.end_to_end_flow_control = parameters.flow_control != 0;
  request.starting_psn = id->psn;
  request.retry_count = std::min(parameters.retry_count, kMostRetryCount);
  request.rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetryCount);
  request.path_mtu = id->path_mtu;
  request.srq = parameters.srq != 0;
  request.primary.traffic_class = id->route.path.traffic_class;
  request.primary.hop_limit = id->route.path.hop_limit;
  request.primary.local_ack_timeout = id->ack_timeout.value_or(ack_timeout(device.ca_ack_delay));
  request.primary.subnet_local = true;

  id->qpn = request.local_qpn;
  id->responder_resources = parameters.responder_resources;
  id->initiator_depth = parameters.initiator_depth;
  id->retry_count = request.retry_count;
  id->endpoint = ib_.connect(now, id->route, request);
  if (id->endpoint == 0) return ENOMEM;
  by_endpoint_[id->endpoint] = number;
  id->state = IdState::connect;
  drain(now);
  return 0;
}

int RdmaCm::connect_datagram(Time now, CmId& id, const rdma_ucm_conn_param& parameters) {
  wire::CmSidrReq request;
  if (!put_ip_header(id, request) ||
      !request.private_data.put(private_data(parameters), wire::kIpHeaderBytes))
    return EINVAL;
  request.service_id = wire::ip_service_id(id.port_space, id.destination.port);
  id.qpn = parameters.qp_num & kQpnMask;
  id.endpoint = ib_.resolve(now, id.route, request, kSidrTimeout, kMostRetries);
  if (id.endpoint == 0) return ENOMEM;
  by_endpoint_[id.endpoint] = id.number;
  id.state = IdState::connect;
  drain(now);
  return 0;
}

int RdmaCm::accept(Time now, uint32_t number, const rdma_ucm_conn_param* parameters) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (id->state != IdState::connect || id->endpoint == 0) return EINVAL;
  const int error = parameters != nullptr ? answer(now, *id, *parameters)
                    : id->is_ud()         ? EINVAL
                                          : ib_.confirm(now, id->endpoint, {});
  // As in the kernel, the peer is not left to wait.
  if (error != 0) refuse(now, *id, wire::CmRejectReason::consumer_defined, {});
  drain(now);
  return error;
}

int RdmaCm::answer(Time now, CmId& id, const rdma_ucm_conn_param& parameters) {
  id.qpn = parameters.qp_num & kQpnMask;
  if (id.is_ud()) {
    wire::CmSidrRep reply;
    if (!reply.private_data.put(private_data(parameters))) return EINVAL;
    reply.status = wire::SidrStatus::valid;
    reply.qpn = id.qpn;
    id.qkey = reply.qkey = kUdpQkey;
    return ib_.answer_sidr(now, id.endpoint, reply);
  }
  wire::CmRep reply;
  if (!reply.private_data.put(private_data(parameters))) return EINVAL;
  const DeviceView device = host_.device(id.port->device);
  reply.local_qpn = id.qpn;
  reply.starting_psn = id.psn;
  reply.responder_resources = parameters.responder_resources;
  reply.initiator_depth = parameters.initiator_depth;
  reply.target_ack_delay = device.ca_ack_delay;
  reply.end_to_end_flow_control = parameters.flow_control != 0;
  reply.rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetryCount);
  reply.srq = parameters.srq != 0;
  reply.local_ca_guid = __builtin_bswap64(device.node_guid_be);
  id.responder_resources = parameters.responder_resources;
  id.initiator_depth = parameters.initiator_depth;
  return ib_.accept(now, id.endpoint, reply);
}

int RdmaCm::refuse(Time now, CmId& id, wire::CmRejectReason reason, std::span<const uint8_t> data) {
  if (!id.is_ud()) return ib_.reject(now, id.endpoint, reason, {}, data);
  wire::CmSidrRep reply;
  if (!reply.private_data.put(data)) return EINVAL;
  reply.status = wire::SidrStatus::rejected;
  return ib_.answer_sidr(now, id.endpoint, reply);
}

int RdmaCm::reject(Time now, uint32_t number, uint8_t reason, std::span<const uint8_t> data) {
  using enum wire::CmRejectReason;
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  const auto given = reason == 0 ? consumer_defined : static_cast<wire::CmRejectReason>(reason);
  if (given != consumer_defined && given != vendor_option_not_supported) return EINVAL;
  if (id->endpoint == 0) return EINVAL;
  const int error = refuse(now, *id, given, data);
  drain(now);
  return error;
}

int RdmaCm::disconnect(Time now, uint32_t number) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (id->endpoint == 0) return EINVAL;
  // Too early, or the peer was first: as in the kernel no error.
  ib_.disconnect(now, id->endpoint, {});
  drain(now);
  return 0;
}

int RdmaCm::notify(Time now, uint32_t number, uint32_t event) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (id->endpoint == 0 || event != IBV_EVENT_COMM_EST) return EINVAL;
  const auto state = ib_.state(id->endpoint);
  if (state == State::established) return EISCONN;
  const int error = ib_.establish(now, id->endpoint);
  drain(now);
  return error;
}

}  // namespace uroce::cm
