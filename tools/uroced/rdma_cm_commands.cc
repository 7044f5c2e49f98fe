// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The commands that change something.
#include <algorithm>
#include <cerrno>

#include "tools/uroced/rdma_cm_server.h"

namespace uroce::daemon {

template <typename Matches>
uint32_t RdmaCmServer::withdraw(Channel& channel, Matches&& matches) {
  const auto taken = static_cast<uint32_t>(std::erase_if(channel.events, matches));
  const uint32_t unsent = std::min(channel.owed, taken);
  channel.owed -= unsent;
  channel.watch->want_writable(channel.owed > 0);
  return taken - unsent;
}

int RdmaCmServer::create_id(Call& call) {
  rdma_ucm_create_id request;
  if (!read(call, request)) return EINVAL;
  if (call.room < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  rdma_ucm_create_id_resp answer{};
  if (const int error = cm_.create(request.ps, request.qp_type, answer.id); error != 0) return error;
  remember(answer.id, call.connection, request.uid);
  return write(call, answer);
}

int RdmaCmServer::destroy_id(Call& call) {
  rdma_ucm_destroy_id request;
  if (!read(call, request)) return EINVAL;
  if (call.room < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  if (const int error = check(call, request.id, true); error != 0) return error;
  std::vector<uint32_t> unheard;
  call.withdrawn = withdraw(call.channel, [&](const Queued& queued) {
    if (queued.event.id != request.id) return false;
    if (queued.event.new_id != 0) unheard.push_back(queued.event.new_id);
    return true;
  });
  const uint32_t reported = record(request.id).events_reported;
  cm_.destroy(now(), request.id);
  for (const uint32_t id : unheard) cm_.destroy(now(), id);
  forget(request.id);
  return write(call, rdma_ucm_destroy_id_resp{reported});
}

namespace {

template <typename Storage>
std::span<const std::byte> bytes_of(const Storage& address) {
  return {reinterpret_cast<const std::byte*>(&address), sizeof address};
}

}  // namespace

int RdmaCmServer::bind_ip(Call& call) {
  rdma_ucm_bind_ip request;
  if (!read(call, request)) return EINVAL;
  const auto address = cm::read_sockaddr(bytes_of(request.addr));
  if (const int error = check(call, request.id); error != 0) return error;
  if (!address || address->family == cm::kAfIb) return EINVAL;
  return cm_.bind(request.id, *address, is_privileged(call.connection));
}

int RdmaCmServer::bind(Call& call) {
  rdma_ucm_bind request;
  if (!read(call, request)) return EINVAL;
  const auto address = cm::read_sockaddr(bytes_of(request.addr));
  if (!address || request.reserved != 0 || request.addr_size != cm::sockaddr_bytes(address->family))
    return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.bind(request.id, *address, is_privileged(call.connection));
}

int RdmaCmServer::resolve_ip(Call& call) {
  rdma_ucm_resolve_ip request;
  if (!read(call, request)) return EINVAL;
  const auto destination = cm::read_sockaddr(bytes_of(request.dst_addr));
  const auto source = cm::read_sockaddr(bytes_of(request.src_addr));
  if (const int error = check(call, request.id); error != 0) return error;
  if (!destination) return EINVAL;
  return cm_.resolve_address(now(), request.id, source.value_or(cm::Address{}), *destination,
                             request.timeout_ms, is_privileged(call.connection));
}

int RdmaCmServer::resolve_addr(Call& call) {
  rdma_ucm_resolve_addr request;
  if (!read(call, request)) return EINVAL;
  const auto destination = cm::read_sockaddr(bytes_of(request.dst_addr));
  const auto source = cm::read_sockaddr(bytes_of(request.src_addr));
  if (!destination || request.reserved != 0 || request.dst_size != cm::sockaddr_bytes(destination->family) ||
      (request.src_size != 0 && (!source || request.src_size != cm::sockaddr_bytes(source->family))))
    return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.resolve_address(now(), request.id, request.src_size != 0 ? *source : cm::Address{}, *destination,
                             request.timeout_ms, is_privileged(call.connection));
}

int RdmaCmServer::resolve_route(Call& call) {
  rdma_ucm_resolve_route request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.resolve_route(request.id);
}

int RdmaCmServer::connect(Call& call) {
  rdma_ucm_connect request;
  if (!read(call, request) || request.conn_param.valid == 0) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.connect(now(), request.id, request.conn_param);
}

int RdmaCmServer::listen(Call& call) {
  constexpr uint32_t kLongestBacklog = 1024;  // net.rdma_ucm.max_backlog
  rdma_ucm_listen request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  const bool usable = request.backlog > 0 && request.backlog < kLongestBacklog;
  const int error = cm_.listen(request.id);
  if (error == 0) backlog_[request.id] = static_cast<int>(usable ? request.backlog : kLongestBacklog);
  return error;
}

int RdmaCmServer::accept(Call& call) {
  rdma_ucm_accept request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  const bool passive = request.conn_param.valid != 0;
  const uint64_t before = record(request.id).uid;
  // Its events may come with the answer.
  if (passive) record(request.id).uid = request.uid;
  const int error = cm_.accept(now(), request.id, passive ? &request.conn_param : nullptr);
  if (error != 0) record(request.id).uid = before;
  return error;
}

int RdmaCmServer::reject(Call& call) {
  rdma_ucm_reject request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.reject(now(), request.id, request.reason, {request.private_data, request.private_data_len});
}

int RdmaCmServer::disconnect(Call& call) {
  rdma_ucm_disconnect request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.disconnect(now(), request.id);
}

int RdmaCmServer::init_qp_attr(Call& call) {
  rdma_ucm_init_qp_attr request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  ib_uverbs_qp_attr answer{};
  const int error = cm_.init_qp_attributes(request.id, request.qp_state, answer);
  return error != 0 ? error : write(call, answer);
}

int RdmaCmServer::get_event(Call& call) {
  // The program has taken a byte for it.
  if (call.channel.events.empty()) return EAGAIN;
  if (call.room < sizeof(rdma_ucm_event_resp)) {
    ++call.channel.owed;
    pay(call.channel);
    return ENOSPC;
  }
  const Queued queued = call.channel.events.front();
  call.channel.events.pop_front();
  const cm::IdEvent& event = queued.event;
  CmIdRecord& owner = record(event.id);
  ++owner.events_reported;
  rdma_ucm_event_resp answer{};
  answer.uid = owner.uid;
  answer.id = event.id;
  answer.event = static_cast<uint32_t>(event.kind);
  answer.status = static_cast<uint32_t>(event.status);
  if (event.datagram) {
    answer.param.ud = event.ud;
  } else {
    answer.param.conn = event.connection;
  }
  if (event.kind == cm::EventKind::connect_request) {
    answer.id = event.new_id;
    remember(event.new_id, call.connection, 0);
    ++backlog_[event.id];
  }
  if (event.group != 0) {
    answer.uid = queued.uid;
    answer.id = event.group;
    ++groups_[event.group].events_reported;
  }
  return write(call, answer);
}

int RdmaCmServer::set_option(Call& call) {
  rdma_ucm_set_option request;
  if (!read(call, request) || call.request.size() < sizeof request + request.optlen) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.set_option(request.id, request.level, request.optname,
                        call.request.subspan(sizeof request, request.optlen));
}

int RdmaCmServer::notify(Call& call) {
  rdma_ucm_notify request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  return cm_.notify(now(), request.id, request.event);
}

int RdmaCmServer::join_ip_mcast(Call& call) {
  rdma_ucm_join_ip_mcast request;
  if (!read(call, request)) return EINVAL;
  return join(call, request.id, request.uid, bytes_of(request.addr));
}

int RdmaCmServer::join_mcast(Call& call) {
  rdma_ucm_join_mcast request;
  if (!read(call, request) || request.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  return join(call, request.id, request.uid, bytes_of(request.addr));  // who only sends attaches no QP
}

int RdmaCmServer::join(Call& call, uint32_t id, uint64_t uid, std::span<const std::byte> address) {
  if (call.room < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  if (const int error = check(call, id); error != 0) return error;
  const auto group_address = cm::read_sockaddr(address);
  if (!group_address) return EINVAL;
  rdma_ucm_create_id_resp answer{};
  if (const int error = cm_.join(id, *group_address, answer.id); error != 0) return error;
  groups_[answer.id] = Membership{id, uid, 0};
  return write(call, answer);
}

int RdmaCmServer::leave_mcast(Call& call) {
  rdma_ucm_destroy_id request;
  if (!read(call, request)) return EINVAL;
  if (call.room < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  const auto group = groups_.find(request.id);
  if (group == groups_.end()) return ENOENT;
  if (const int error = check(call, group->second.id, true); error != 0) return error;
  const uint32_t reported = group->second.events_reported;
  cm_.leave(group->second.id, request.id);
  call.withdrawn =
      withdraw(call.channel, [&](const Queued& queued) { return queued.event.group == request.id; });
  groups_.erase(group);
  return write(call, rdma_ucm_destroy_id_resp{reported});
}

int RdmaCmServer::migrate_id(Call& call) {
  rdma_ucm_migrate_id request;
  if (!read(call, request)) return EINVAL;
  if (call.room < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
  const auto old = channels_.find(request.fd);
  const bool same_process = old != channels_.end() &&
                            registry_.connection(request.fd).pid == registry_.connection(call.connection).pid;
  if (!same_process) return ENOENT;
  Call of_old{request.fd, old->second, call.request};
  if (const int error = check(of_old, request.id, true); error != 0) return error;
  const uint32_t reported = record(request.id).events_reported;
  if (request.fd != call.connection) {
    std::vector<Queued> moved;
    call.withdrawn = withdraw(old->second, [&](const Queued& queued) {
      if (queued.event.id == request.id) moved.push_back(queued);
      return queued.event.id == request.id;
    });
    record(request.id).connection = call.connection;
    for (const Queued& queued : moved) enqueue(call.connection, queued);
  }
  return write(call, rdma_ucm_migrate_resp{reported});
}

}  // namespace uroce::daemon
