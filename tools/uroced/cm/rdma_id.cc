// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Making, binding and ending identifiers.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/uroced/cm/rdma_cm.h"

namespace uroce::cm {

namespace {

constexpr uint16_t kFirstUnprivilegedPort = 1024;

// The port space alone says the type, but for RDMA_PS_IB.
std::optional<QpType> qp_type_of(uint16_t port_space, uint8_t asked) {
  switch (port_space) {
    case RDMA_PS_TCP: return QpType::rc;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB: return QpType::ud;
    case RDMA_PS_IB: break;
    default: return std::nullopt;
  }
  switch (static_cast<QpType>(asked)) {
    case QpType::rc:
    case QpType::uc:
    case QpType::ud:
    case QpType::xrc_ini:
    case QpType::xrc_tgt: return static_cast<QpType>(asked);
  }
  // The kernel takes whatever it is told; connect() is where it matters.
  return QpType::rc;
}

// An IPv4 address as programs of IPv6 write it: the kernel's rdma_cm knows no such thing.
bool is_mapped(const Address& address) {
  return address.family == AF_INET6 && address.ip.is_ipv4();
}

template <typename Value>
std::optional<Value> value_of(std::span<const std::byte> bytes) {
  Value value;
  if (bytes.size() != sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

RdmaCm::RdmaCm(Host& host, uint64_t seed) : host_(host), ib_(seed), random_(seed) {}

const CmId* RdmaCm::find(uint32_t id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : &found->second;
}

CmId* RdmaCm::edit(uint32_t id) {
  return const_cast<CmId*>(find(id));
}

CmId* RdmaCm::make(uint16_t port_space, QpType qp_type) {
  if (ids_.size() >= kMostIds) return nullptr;
  // They roll, so that a number is not used again soon.
  const auto step = [this] { next_id_ = next_id_ % kMostIds + 1; };
  while (ids_.count(next_id_) != 0) step();
  CmId& id = ids_[next_id_];
  id.number = next_id_;
  step();
  id.port_space = port_space;
  id.qp_type = qp_type;
  id.psn = static_cast<uint32_t>(random_()) & wire::Psn::kMask;
  return &id;
}

int RdmaCm::create(uint16_t port_space, uint8_t qp_type, uint32_t& id) {
  const auto type = qp_type_of(port_space, qp_type);
  if (!type) return EINVAL;
  const CmId* made = make(port_space, *type);
  if (made == nullptr) return ENOMEM;
  id = made->number;
  return 0;
}

void RdmaCm::restore_dead(uint32_t id, uint16_t port_space) {
  CmId& dead = ids_[id];
  dead.number = id;
  dead.port_space = port_space;
  dead.state = IdState::device_removal;
}

void RdmaCm::destroy(Time now, uint32_t number) {
  CmId* id = edit(number);
  if (id == nullptr) return;
  if (id->endpoint != 0) {
    by_endpoint_.erase(id->endpoint);
    ib_.release(now, id->endpoint);
  }
  if (id->has_port) ports_.give_back(id->port_space, id->source.port, number);
  std::erase(querying_, number);
  // Requests that nobody has heard of yet end with their listener.
  std::vector<uint32_t> unheard;
  std::erase_if(events_, [&](const IdEvent& event) {
    if (event.id != number) return false;
    if (event.new_id != 0) unheard.push_back(event.new_id);
    return true;
  });
  ids_.erase(number);
  for (const uint32_t request : unheard) destroy(now, request);
  drain(now);
}

PortUser RdmaCm::user_of(const CmId& id) const {
  return {id.number, id.source, id.reuse, id.own_family_only()};
}

int RdmaCm::take_port(CmId& id, bool privileged) {
  PortUser user = user_of(id);
  int error;
  if (id.source.port == 0) {
    error = ports_.take_any(id.port_space, user, host_.ephemeral_ports(), static_cast<uint32_t>(random_()));
  } else if (id.source.port < kFirstUnprivilegedPort && !privileged) {
    error = EACCES;
  } else {
    error = ports_.take(id.port_space, user);
  }
  if (error != 0) return error;
  id.source = user.address;
  id.has_port = true;
  return 0;
}

int RdmaCm::bind_to(CmId& id, const Address& address, bool privileged) {
  if (id.state != IdState::idle) return EINVAL;
  std::optional<LocalPort> port;
  if (address.family == kAfIb) {
    // Only what librdmacm probes with: no device here has AF_IB addresses.
    if (!address.is_any()) return ENODEV;
  } else if (address.family != AF_INET && address.family != AF_INET6) {
    return EAFNOSUPPORT;
  } else if (!address.is_any()) {
    if (address.ip.is_link_local() && address.scope == 0) return EINVAL;
    if (is_mapped(address) || !host_.is_own_address(address.ip, address.scope)) return EADDRNOTAVAIL;
    port = host_.port_of(address.ip, address.scope);
    if (!port) return ENODEV;
  }
  const Address before = id.source;
  id.source = address;
  if (const int error = take_port(id, privileged); error != 0) {
    id.source = before;
    return error;
  }
  id.port = port;
  id.state = IdState::address_bound;
  return 0;
}

int RdmaCm::bind(uint32_t number, const Address& address, bool privileged) {
  CmId* id = edit(number);
  return id == nullptr ? ENOENT : bind_to(*id, address, privileged);
}

int RdmaCm::listen(uint32_t number) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  if (id->state == IdState::idle) {
    if (const int error = bind_to(*id, Address::any(AF_INET), false); error != 0) return error;
  }
  if (id->state != IdState::address_bound) return EINVAL;
  if (id->source.family == kAfIb) return EAFNOSUPPORT;
  if (const int error = ports_.may_listen(id->port_space, user_of(*id)); error != 0) return error;
  // From here on nobody shares the port.
  id->reuse = false;
  ports_.update(id->port_space, user_of(*id));
  id->state = IdState::listen;
  return 0;
}

int RdmaCm::set_option(uint32_t number, uint32_t level, uint32_t name, std::span<const std::byte> value) {
  CmId* id = edit(number);
  if (id == nullptr) return ENOENT;
  // RDMA_OPTION_IB: a path from the subnet administrator, which RoCE has none of.
  if (level != RDMA_OPTION_ID) return ENOSYS;
  switch (name) {
    case RDMA_OPTION_ID_TOS: {
      const auto tos = value_of<uint8_t>(value);
      if (!tos) return EINVAL;
      id->tos = *tos;
      return 0;
    }
    case RDMA_OPTION_ID_REUSEADDR: {
      const auto reuse = value_of<int>(value);
      if (!reuse) return EINVAL;
      const bool may = (*reuse != 0 && id->state != IdState::listen) || id->state == IdState::idle;
      if (!may) return EINVAL;
      id->reuse = *reuse != 0;
      break;
    }
    case RDMA_OPTION_ID_AFONLY: {
      const auto only = value_of<int>(value);
      if (!only || (id->state != IdState::idle && id->state != IdState::address_bound)) return EINVAL;
      id->family_option = *only != 0;
      break;
    }
    case RDMA_OPTION_ID_ACK_TIMEOUT: {
      constexpr uint8_t kLongest = 31;
      const auto timeout = value_of<uint8_t>(value);
      if (!timeout || *timeout > kLongest) return EINVAL;
      if (id->qp_type != QpType::rc && id->qp_type != QpType::xrc_ini) return EINVAL;
      id->ack_timeout = *timeout;
      return 0;
    }
    default: return ENOSYS;
  }
  if (id->has_port) ports_.update(id->port_space, user_of(*id));
  return 0;
}

void RdmaCm::on_device_removed(uint32_t device) {
  ib_.forget_device(device);
  for (auto& [number, id] : ids_) {
    if (!id.port || id.port->device != device || id.state == IdState::device_removal) continue;
    if (id.endpoint != 0) by_endpoint_.erase(id.endpoint);
    id.endpoint = 0;
    id.port.reset();
    std::erase(querying_, number);
    id.state = IdState::device_removal;
    emit(number, EventKind::device_removal);
  }
}

void RdmaCm::emit(uint32_t id, EventKind kind, int status) {
  IdEvent event;
  event.id = id;
  event.kind = kind;
  event.status = status;
  events_.push_back(event);
}

std::optional<IdEvent> RdmaCm::poll_event() {
  if (events_.empty()) return std::nullopt;
  IdEvent event = events_.front();
  events_.pop_front();
  return event;
}

}  // namespace uroce::cm
