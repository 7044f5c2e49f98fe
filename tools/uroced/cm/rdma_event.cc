// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the peer has said, as events of identifiers.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/uroced/cm/rdma_cm.h"

namespace uroce::cm {

namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;

template <typename To>
void copy_private_data(std::span<const uint8_t> from, To& to) {
  const size_t length = std::min(from.size(), sizeof to.private_data);
  std::memcpy(to.private_data, from.data(), length);
  to.private_data_len = static_cast<uint8_t>(length);
}

QpType type_of(const wire::CmReq& request) {
  if (request.transport == wire::CmTransport::uc) return QpType::uc;
  return request.transport == wire::CmTransport::extended ? QpType::xrc_tgt : QpType::rc;
}

// Behind the header that IP applications put in front.
std::span<const uint8_t> user_part(std::span<const uint8_t> private_data) {
  return private_data.subspan(wire::kIpHeaderBytes);
}

rdma_ucm_conn_param connection_of(const wire::CmReq& request) {
  rdma_ucm_conn_param out{};
  copy_private_data(user_part(request.private_data.bytes), out);
  out.qp_num = request.local_qpn;
  // What the other side can do is what this side may ask for, and the other way round.
  out.responder_resources = request.initiator_depth;
  out.initiator_depth = request.responder_resources;
  out.flow_control = request.end_to_end_flow_control;
  out.retry_count = request.retry_count;
  out.rnr_retry_count = request.rnr_retry_count;
  out.srq = request.srq;
  return out;
}

rdma_ucm_conn_param connection_of(const wire::CmRep& reply) {
  rdma_ucm_conn_param out{};
  copy_private_data(reply.private_data.bytes, out);
  out.qp_num = reply.local_qpn;
  out.responder_resources = reply.initiator_depth;
  out.initiator_depth = reply.responder_resources;
  out.flow_control = reply.end_to_end_flow_control;
  out.rnr_retry_count = reply.rnr_retry_count;
  out.srq = reply.srq;
  return out;
}

// Whether the listener is meant: by its address, or as wildcard of the family, or of both.
bool listens_for(const CmId& listener, const wire::CmIpHeader& header, uint32_t ifindex) {
  if (listener.state != IdState::listen) return false;
  const uint16_t family = header.ipv4 ? AF_INET : AF_INET6;
  if (listener.source.is_any()) return !listener.own_family_only() || listener.source.family == family;
  const bool here = !header.destination.is_link_local() || listener.source.scope == ifindex;
  return here && listener.source.ip == header.destination;
}

}  // namespace

void RdmaCm::on_mad(Time now, const Route& from, std::span<const std::byte> mad) {
  ib_.on_mad(now, from, mad);
  drain(now);
}

void RdmaCm::drain(Time now) {
  while (const auto event = ib_.poll_event()) on_ib_event(now, *event);
}

// There is at most one: listen() sees to it that nobody else listens for the same.
const CmId* RdmaCm::find_listener(uint64_t service_id, const wire::CmIpHeader& header, QpType type,
                                  uint32_t ifindex) const {
  if (service_id >> 32 != 0) return nullptr;
  const auto port_space = static_cast<uint16_t>(service_id >> 16);
  for (const PortUser& user : ports_.users(port_space, static_cast<uint16_t>(service_id))) {
    const CmId* listener = find(user.id);
    if (listens_for(*listener, header, ifindex)) return listener->qp_type == type ? listener : nullptr;
  }
  return nullptr;
}

void RdmaCm::refuse_request(Time now, const Event& event) {
  if (event.kind == Event::Kind::sidr_request) {
    wire::CmSidrRep answer;
    answer.status = wire::SidrStatus::unsupported;
    ib_.answer_sidr(now, event.endpoint, answer);
  } else {
    ib_.reject(now, event.endpoint, wire::CmRejectReason::invalid_service_id, {}, {});
  }
  ib_.release(now, event.endpoint);
}

void RdmaCm::on_request(Time now, const Event& event) {
  const auto* req = std::get_if<wire::CmReq>(&event.message);
  const auto* sidr = std::get_if<wire::CmSidrReq>(&event.message);
  const uint64_t service = req != nullptr ? req->service_id : sidr->service_id;
  const std::span<const uint8_t> data = req != nullptr ? std::span<const uint8_t>(req->private_data.bytes)
                                                       : std::span<const uint8_t>(sidr->private_data.bytes);
  const QpType type = req != nullptr ? type_of(*req) : QpType::ud;
  const engine::Path& path = event.route.path;
  wire::CmIpHeader header;
  // Whoever names addresses other than the packet's would pass for somebody else with the listener.
  if (!wire::parse_ip_header(data, header) || header.source != path.destination ||
      header.destination != path.source)
    return refuse_request(now, event);
  const CmId* listener = find_listener(service, header, type, path.ifindex);
  const auto port = host_.port_of(path.source, path.ifindex);
  if (listener == nullptr || !port) return refuse_request(now, event);
  CmId* id = make(listener->port_space, type);
  if (id == nullptr) return ib_.release(now, event.endpoint);
  id->state = IdState::connect;
  id->source = Address::of(header.destination, listener->source.port);
  id->destination = Address::of(header.source, header.source_port);
  if (header.destination.is_link_local()) id->source.scope = port->ifindex;
  if (header.source.is_link_local()) id->destination.scope = port->ifindex;
  id->port = port;
  id->tos = listener->tos;
  id->route = event.route;
  id->endpoint = event.endpoint;
  by_endpoint_[event.endpoint] = id->number;
  id->routed = true;

  IdEvent told;
  told.id = listener->number;
  told.kind = EventKind::connect_request;
  told.new_id = id->number;
  if (req != nullptr) {
    id->route.path.traffic_class = req->primary.traffic_class;
    id->remote_qpn = req->local_qpn;
    id->remote_psn = req->starting_psn;
    id->path_mtu = req->path_mtu;
    id->initiator_depth = req->responder_resources;
    id->responder_resources = req->initiator_depth;
    id->retry_count = req->retry_count;
    id->rnr_retry_count = req->rnr_retry_count;
    id->local_ack_timeout = req->primary.local_ack_timeout;
    told.connection = connection_of(*req);
  } else {
    id->path_mtu = host_.device(port->device).active_mtu;
    told.datagram = true;
    copy_private_data(user_part(sidr->private_data.bytes), told.ud);
  }
  events_.push_back(told);
}

void RdmaCm::on_reply(const Event& event, CmId& id) {
  const auto& reply = std::get<wire::CmRep>(event.message);
  id.remote_qpn = reply.local_qpn;
  id.remote_psn = reply.starting_psn;
  id.initiator_depth = reply.responder_resources;
  id.responder_resources = reply.initiator_depth;
  id.rnr_retry_count = reply.rnr_retry_count;
  id.local_ack_timeout = ack_timeout(reply.target_ack_delay);
  emit(id.number, EventKind::connect_response);
  events_.back().connection = connection_of(reply);
}

void RdmaCm::on_sidr_reply(const Event& event, CmId& id) {
  const auto& reply = std::get<wire::CmSidrRep>(event.message);
  const bool valid = reply.status == wire::SidrStatus::valid;
  emit(id.number, valid ? EventKind::established : EventKind::unreachable, static_cast<int>(reply.status));
  IdEvent& told = events_.back();
  told.datagram = true;
  copy_private_data(reply.private_data.bytes, told.ud);
  if (!valid) return;
  told.ud.qp_num = id.remote_qpn = reply.qpn;
  told.ud.qkey = id.qkey = reply.qkey;
  fill_address(id, id.destination.ip, told.ud.ah_attr);
}

void RdmaCm::on_ib_event(Time now, const Event& event) {
  if (event.kind == Event::Kind::request || event.kind == Event::Kind::sidr_request)
    return on_request(now, event);
  const auto found = by_endpoint_.find(event.endpoint);
  CmId* id = found == by_endpoint_.end() ? nullptr : edit(found->second);
  if (id == nullptr) return;
  // As in the kernel, an event that does not fit the identifier's state is not told.
  const bool connecting = id->state == IdState::connect;
  switch (event.kind) {
    case Event::Kind::reply:
      if (connecting) on_reply(event, *id);
      break;
    case Event::Kind::sidr_reply:
      if (connecting) on_sidr_reply(event, *id);
      break;
    case Event::Kind::established:
      if (connecting) emit(id->number, EventKind::established);
      break;
    case Event::Kind::rejected: {
      if (!connecting) break;
      const auto& reject = std::get<wire::CmRej>(event.message);
      emit(id->number, EventKind::rejected, static_cast<int>(reject.reason));
      copy_private_data(reject.private_data.bytes, events_.back().connection);
      break;
    }
    case Event::Kind::unreachable:
      if (!connecting) break;
      emit(id->number, EventKind::unreachable, -ETIMEDOUT);
      events_.back().datagram = id->is_ud();
      break;
    case Event::Kind::disconnected:
      if (!connecting) break;
      id->state = IdState::disconnect;
      emit(id->number, EventKind::disconnected, event.timed_out ? -ETIMEDOUT : 0);
      break;
    case Event::Kind::timewait_exit:
      if (id->state == IdState::disconnect) emit(id->number, EventKind::timewait_exit);
      break;
    case Event::Kind::request:
    case Event::Kind::sidr_request: break;
  }
}

int RdmaCm::join(uint32_t number, const Address& address, uint32_t& group) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (!id->port || (id->state != IdState::address_bound && id->state != IdState::address_resolved))
    return EINVAL;
  if (!id->is_ud() || !address.ip.is_multicast()) return EINVAL;
  group = next_group_++;
  id->groups.insert(group);
  emit(number, EventKind::multicast_join);
  IdEvent& told = events_.back();
  told.group = group;
  told.datagram = true;
  told.ud.qp_num = kMulticastQpn;
  told.ud.qkey = id->qkey = id->port_space == RDMA_PS_UDP ? kUdpQkey : 0;
  fill_address(*id, address.ip, told.ud.ah_attr);
  constexpr uint16_t kFirstMulticastLid = 0xc000;
  told.ud.ah_attr.dlid = kFirstMulticastLid;
  return 0;
}

int RdmaCm::leave(uint32_t number, uint32_t group) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (id->groups.erase(group) == 0) return ENOENT;
  std::erase_if(events_, [&](const IdEvent& event) { return event.group == group; });
  return 0;
}

}  // namespace uroce::cm
