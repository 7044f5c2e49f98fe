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

// Whether the listener is meant: by its address, or as wildcard of either family unless told otherwise.
bool listens_for(const CmId& listener, const wire::CmIpHeader& header) {
  if (listener.state != IdState::listen) return false;
  const uint16_t family = header.ipv4 ? AF_INET : AF_INET6;
  if (listener.source.is_any()) return !listener.own_family_only || listener.source.family == family;
  return listener.source.ip == header.destination;
}

}  // namespace

void RdmaCm::on_mad(Time now, const Route& from, std::span<const std::byte> mad) {
  ib_.on_mad(now, from, mad);
  drain(now);
}

void RdmaCm::drain(Time now) {
  while (const auto event = ib_.poll_event()) on_ib_event(now, *event);
}

const CmId* RdmaCm::find_listener(uint64_t service_id, const wire::CmIpHeader& header) const {
  const auto port_space = static_cast<uint16_t>(service_id >> 16);
  if (service_id >> 32 != 0) return nullptr;
  const CmId* wildcard = nullptr;
  for (const PortUser& user : ports_.users(port_space, static_cast<uint16_t>(service_id))) {
    const CmId* listener = find(user.id);
    if (listener == nullptr || !listens_for(*listener, header)) continue;
    if (!listener->source.is_any()) return listener;
    wildcard = listener;
  }
  return wildcard;
}

void RdmaCm::on_request(Time now, const Event& event) {
  const auto* req = std::get_if<wire::CmReq>(&event.message);
  const auto* sidr = std::get_if<wire::CmSidrReq>(&event.message);
  const uint64_t service = req != nullptr ? req->service_id : sidr->service_id;
  const std::span<const uint8_t> data = req != nullptr ? std::span<const uint8_t>(req->private_data.bytes)
                                                       : std::span<const uint8_t>(sidr->private_data.bytes);
  wire::CmIpHeader header;
  const CmId* listener = wire::parse_ip_header(data, header) ? find_listener(service, header) : nullptr;
  const auto port = host_.port_of(event.route.path.source, event.route.path.ifindex);
  const bool fits = listener != nullptr && port && listener->is_ud() == (sidr != nullptr);
  if (!fits) {
    if (sidr != nullptr) {
      wire::CmSidrRep answer;
      answer.status = wire::SidrStatus::unsupported;
      ib_.answer_sidr(now, event.endpoint, answer);
    } else {
      ib_.reject(now, event.endpoint, wire::CmRejectReason::invalid_service_id, {}, {});
    }
    ib_.release(now, event.endpoint);
    return;
  }
  const uint32_t listener_number = listener->number;
  const uint16_t listener_port = listener->source.port;
  const uint8_t listener_tos = listener->tos;
  const uint16_t port_space = listener->port_space;
  CmId* made = make(port_space, req != nullptr ? type_of(*req) : QpType::ud);
  if (made == nullptr) return ib_.release(now, event.endpoint);
  CmId& id = *made;
  id.state = IdState::connect;
  id.passive = true;
  id.source = Address::of(header.destination, listener_port);
  id.destination = Address::of(header.source, header.source_port);
  if (header.destination.is_link_local()) id.source.scope = port->ifindex;
  if (header.source.is_link_local()) id.destination.scope = port->ifindex;
  id.port = port;
  id.tos = listener_tos;
  id.route = event.route;
  id.endpoint = event.endpoint;
  by_endpoint_[event.endpoint] = id.number;
  id.routed = true;

  IdEvent told;
  told.id = listener_number;
  told.kind = EventKind::connect_request;
  told.new_id = id.number;
  if (req != nullptr) {
    id.route.path.traffic_class = req->primary.traffic_class;
    id.remote_qpn = req->local_qpn;
    id.remote_psn = req->starting_psn;
    id.path_mtu = req->path_mtu;
    id.initiator_depth = req->responder_resources;
    id.responder_resources = req->initiator_depth;
    id.retry_count = req->retry_count;
    id.rnr_retry_count = req->rnr_retry_count;
    id.local_ack_timeout = req->primary.local_ack_timeout;
    told.connection = connection_of(*req);
  } else {
    id.path_mtu = host_.device(port->device).active_mtu;
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
  emit(id.number, EventKind::connect_response);
  events_.back().connection = connection_of(reply);
}

void RdmaCm::on_sidr_reply(const Event& event, CmId& id) {
  const auto& reply = std::get<wire::CmSidrRep>(event.message);
  if (reply.status != wire::SidrStatus::valid) {
    emit(id.number, EventKind::unreachable, static_cast<int>(reply.status));
    events_.back().datagram = true;
    return;
  }
  emit(id.number, EventKind::established);
  IdEvent& told = events_.back();
  told.datagram = true;
  told.ud.qp_num = id.remote_qpn = reply.qpn;
  told.ud.qkey = id.qkey = reply.qkey;
  fill_address(id, id.destination.ip, told.ud.ah_attr);
  copy_private_data(reply.private_data.bytes, told.ud);
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

int RdmaCm::join(uint32_t number, const Address& address, bool send_only, uint32_t& group) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (!id->port || (id->state != IdState::address_bound && id->state != IdState::address_resolved))
    return EINVAL;
  if (!address.ip.is_multicast()) return EINVAL;
  group = next_group_++;
  id->groups[group] = Group{address, address.ip, send_only};
  emit(number, EventKind::multicast_join);
  IdEvent& told = events_.back();
  told.group = group;
  told.datagram = true;
  told.ud.qp_num = kMulticastQpn;
  constexpr uint32_t kUdpQkey = 0x01234567;
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
