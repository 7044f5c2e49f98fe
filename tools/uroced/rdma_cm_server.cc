// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/rdma_cm_server.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

uint64_t random_seed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    seed = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return seed;
}

}  // namespace

RdmaCmServer::RdmaCmServer(Loop& loop, Registry& registry, KeeperLine& keeper, Connections& connections,
                           DeviceSet& devices, netlink::RouteTable& routes, SlotGroup& slots)
    : loop_(loop),
      registry_(registry),
      keeper_(keeper),
      connections_(connections),
      host_(devices, routes),
      cm_(host_, random_seed()),
      gsi_(
          loop, slots,
          [this](const wire::Gid& destination, uint32_t ifindex, cm::Route& out) {
            const auto port = host_.port_of(destination, destination.is_link_local() ? ifindex : 0);
            if (port) {
              out.device = port->device;
              out.path.ifindex = port->ifindex;
            }
            return port.has_value();
          },
          [this](const cm::Route& from, std::span<const std::byte> mad) {
            cm_.on_mad(now(), from, mad);
            flush();
          }),
      timer_(loop, [this] {
        cm_.on_deadline(now());
        flush();
      }) {}

RdmaCmServer::~RdmaCmServer() = default;

cm::Time RdmaCmServer::now() const {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

// ---- channels

void RdmaCmServer::adopt() {
  for (uint32_t i = 1; i < kMaxConnections; ++i) {
    Fd far_end = keeper_.take_inherited(Keep::cm_far_end, i);
    const ConnectionRecord& connection = registry_.connection(i);
    if (far_end && connection.live != 0 && connection.role == UROCE_ROLE_RDMA_CM)
      add_channel(i, std::move(far_end));
  }
  for (uint32_t id = 1; id < kMaxCmIds; ++id) {
    const CmIdRecord& old = record(id);
    if (old.live == 0) continue;
    if (channels_.count(old.connection) == 0) {
      forget(id);
      continue;
    }
    cm_.restore_dead(id, static_cast<uint16_t>(old.port_space));
    cm::IdEvent gone;
    gone.id = id;
    gone.kind = cm::EventKind::device_removal;
    if (old.uid != 0) enqueue(old.connection, {gone, 0});
  }
  on_device_added();
}

void RdmaCmServer::on_device_added() {
  std::string why;
  if (!gsi_.open(why)) spdlog::debug("QP 1 is not open: {}", why);
}

Fd RdmaCmServer::open_channel(uint32_t connection, std::string& why) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    why = std::strerror(errno);
    return Fd();
  }
  Fd program_end(ends[0]), far_end(ends[1]);
  if (!keeper_.keep(Keep::cm_far_end, connection, far_end.get())) {
    why = "the keeper process has no descriptor left; raise `ulimit -n` before uroced starts";
    return Fd();
  }
  channels_.erase(connection);
  add_channel(connection, std::move(far_end));
  return program_end;
}

void RdmaCmServer::add_channel(uint32_t connection, Fd far_end) {
  const int fd = far_end.get();
  Channel& channel = channels_[connection];
  channel.far_end = std::move(far_end);
  channel.watch = std::make_unique<FdWatch>(
      loop_, fd,
      [this, connection, fd] {
        char bytes[64];
        if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) != 0) return;  // a program has nothing to say here
        channels_[connection].watch->silence();
        // The program has closed the file.
        loop_.later([this, connection] {
          if (channels_.count(connection) != 0) connections_.close(connection, "its rdma_cm file was closed");
        });
      },
      [this, connection] { pay(connection, channels_[connection]); });
}

void RdmaCmServer::close_channel(uint32_t connection) {
  const auto found = channels_.find(connection);
  if (found == channels_.end()) return;
  std::vector<uint32_t> orphans;
  for (const Queued& queued : found->second.events) {
    if (queued.event.new_id != 0) orphans.push_back(queued.event.new_id);
  }
  cm_.for_each([&](const cm::CmId& id) {
    if (record(id.number).live != 0 && record(id.number).connection == connection)
      orphans.push_back(id.number);
  });
  channels_.erase(found);
  keeper_.drop(Keep::cm_far_end, connection);
  for (const uint32_t id : orphans) {
    cm_.destroy(now(), id);
    forget(id);
  }
  flush();
}

void RdmaCmServer::on_device_removed(uint32_t device) {
  cm_.on_device_removed(device);
  flush();
}

void RdmaCmServer::remember(uint32_t id, uint32_t connection, uint64_t uid) {
  CmIdRecord& made = record(id);
  made = CmIdRecord{};
  made.live = 1;
  made.connection = connection;
  made.port_space = cm_.find(id)->port_space;
  made.uid = uid;
}

void RdmaCmServer::forget(uint32_t id) {
  record(id) = CmIdRecord{};
  backlog_.erase(id);
  std::erase_if(groups_, [id](const auto& entry) { return entry.second.id == id; });
}

uint32_t RdmaCmServer::pid_of(uint32_t id) const {
  return record(id).live != 0 ? registry_.connection(record(id).connection).pid : 0;
}

bool RdmaCmServer::is_privileged(uint32_t connection) const {
  return registry_.connection(connection).uid == 0;
}

// ---- events

void RdmaCmServer::flush() {
  for (;;) {
    bool idle = true;
    while (const auto out = cm_.poll_transmit()) gsi_.send(*out), idle = false;
    while (const auto event = cm_.poll_event()) deliver(*event), idle = false;
    if (idle) break;
  }
  const auto next = cm_.next_deadline();
  if (!next) return timer_.cancel();
  const int64_t wait_ns = std::max<int64_t>(0, *next - now());
  timer_.start(std::chrono::milliseconds((wait_ns + 999'999) / 1'000'000));
}

void RdmaCmServer::deliver(const cm::IdEvent& event) {
  const CmIdRecord& owner = record(event.id);
  const bool request = event.kind == cm::EventKind::connect_request;
  // Until it was accepted nobody knows an identifier by name.
  const bool told = owner.live != 0 && owner.uid != 0 && channels_.count(owner.connection) != 0;
  if (request) {
    const auto left = backlog_.find(event.id);
    if (!told || left == backlog_.end() || left->second <= 0) return cm_.destroy(now(), event.new_id);
    --left->second;
  } else if (!told) {
    return;
  }
  enqueue(owner.connection, {event, event.group != 0 ? groups_[event.group].uid : 0});
}

void RdmaCmServer::enqueue(uint32_t connection, const Queued& queued) {
  Channel& channel = channels_[connection];
  channel.events.push_back(queued);
  ++channel.owed;
  pay(connection, channel);
}

void RdmaCmServer::pay(uint32_t, Channel& channel) {
  while (channel.owed > 0) {
    char bytes[64] = {};
    const size_t count = std::min<size_t>(channel.owed, sizeof bytes);
    const ssize_t sent = send(channel.far_end.get(), bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) break;
    channel.owed -= static_cast<uint32_t>(sent);
  }
  channel.watch->want_writable(channel.owed > 0);
}

template <typename Matches>
uint32_t RdmaCmServer::withdraw(Channel& channel, Matches&& matches) {
  const auto taken = static_cast<uint32_t>(std::erase_if(channel.events, matches));
  const uint32_t unsent = std::min(channel.owed, taken);
  channel.owed -= unsent;
  channel.watch->want_writable(channel.owed > 0);
  return taken - unsent;
}

// ---- commands

void RdmaCmServer::on_command(uint32_t connection, const Message& message) {
  const ConnectionRecord& client = registry_.connection(connection);
  if (client.has_reply != 0 && client.seq == message.header.seq) {
    // Answered before: by an earlier worker, then the answer may not have left.
    if (!connections_.was_answered(connection, message.header.seq)) send_stored(connection, message.header);
    return;
  }
  std::vector<std::byte> reply;
  int error;
  try {
    error = execute(connection, message, reply);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error == 0 && reply.size() > kStoredReplyBytes) error = EIO;  // no command has such a long one
  if (error != 0) reply.clear();
  ConnectionRecord& answered = registry_.edit(client);
  answered.has_reply = 1;
  answered.seq = message.header.seq;
  answered.status = error;
  answered.reply_bytes = static_cast<uint32_t>(reply.size());
  if (!reply.empty()) std::memcpy(answered.reply, reply.data(), reply.size());
  send_stored(connection, message.header);
  flush();
}

void RdmaCmServer::send_stored(uint32_t connection, const uroce_msg& request) {
  const ConnectionRecord& client = registry_.connection(connection);
  connections_.reply(connection, request, client.status,
                     {reinterpret_cast<const std::byte*>(client.reply), client.reply_bytes});
}

int RdmaCmServer::execute(uint32_t connection, const Message& message, std::vector<std::byte>& reply) {
  const auto found = channels_.find(connection);
  rdma_ucm_cmd_hdr header;
  if (found == channels_.end()) return EIO;
  if (message.payload.size() < sizeof header) return EINVAL;
  std::memcpy(&header, message.payload.data(), sizeof header);
  const std::span<const std::byte> request = std::span(message.payload).subspan(sizeof header);
  const Handler handler = handler_of(header.cmd);
  if (header.in > request.size() || handler == nullptr) return EINVAL;
  Call call{connection, found->second, request, header.out};
  const int error = (this->*handler)(call);
  if (error != 0) return error;
  const uroce_cm_reply head{call.withdrawn, 0};
  const auto* bytes = reinterpret_cast<const std::byte*>(&head);
  reply.assign(bytes, bytes + sizeof head);
  reply.insert(reply.end(), call.answer.begin(), call.answer.end());
  return 0;
}

RdmaCmServer::Handler RdmaCmServer::handler_of(uint32_t command) {
  switch (command) {
    case RDMA_USER_CM_CMD_CREATE_ID: return &RdmaCmServer::create_id;
    case RDMA_USER_CM_CMD_DESTROY_ID: return &RdmaCmServer::destroy_id;
    case RDMA_USER_CM_CMD_BIND_IP: return &RdmaCmServer::bind_ip;
    case RDMA_USER_CM_CMD_RESOLVE_IP: return &RdmaCmServer::resolve_ip;
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE: return &RdmaCmServer::resolve_route;
    case RDMA_USER_CM_CMD_QUERY_ROUTE: return &RdmaCmServer::query_route;
    case RDMA_USER_CM_CMD_CONNECT: return &RdmaCmServer::connect;
    case RDMA_USER_CM_CMD_LISTEN: return &RdmaCmServer::listen;
    case RDMA_USER_CM_CMD_ACCEPT: return &RdmaCmServer::accept;
    case RDMA_USER_CM_CMD_REJECT: return &RdmaCmServer::reject;
    case RDMA_USER_CM_CMD_DISCONNECT: return &RdmaCmServer::disconnect;
    case RDMA_USER_CM_CMD_INIT_QP_ATTR: return &RdmaCmServer::init_qp_attr;
    case RDMA_USER_CM_CMD_GET_EVENT: return &RdmaCmServer::get_event;
    case RDMA_USER_CM_CMD_SET_OPTION: return &RdmaCmServer::set_option;
    case RDMA_USER_CM_CMD_NOTIFY: return &RdmaCmServer::notify;
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST: return &RdmaCmServer::join_ip_mcast;
    case RDMA_USER_CM_CMD_LEAVE_MCAST: return &RdmaCmServer::leave_mcast;
    case RDMA_USER_CM_CMD_MIGRATE_ID: return &RdmaCmServer::migrate_id;
    case RDMA_USER_CM_CMD_QUERY: return &RdmaCmServer::query;
    case RDMA_USER_CM_CMD_BIND: return &RdmaCmServer::bind;
    case RDMA_USER_CM_CMD_RESOLVE_ADDR: return &RdmaCmServer::resolve_addr;
    case RDMA_USER_CM_CMD_JOIN_MCAST: return &RdmaCmServer::join_mcast;
    default: return nullptr;
  }
}

int RdmaCmServer::check(const Call& call, uint32_t id, bool may_be_closing) const {
  if (id == 0 || id >= kMaxCmIds || record(id).live == 0 || cm_.find(id) == nullptr) return ENOENT;
  if (record(id).connection != call.connection) return EINVAL;
  return !may_be_closing && cm_.find(id)->state == cm::IdState::device_removal ? EIO : 0;
}

template <typename Answer>
int RdmaCmServer::write(Call& call, const Answer& answer) {
  if (call.room < sizeof answer) return ENOSPC;
  const auto* bytes = reinterpret_cast<const std::byte*>(&answer);
  call.answer.assign(bytes, bytes + sizeof answer);
  return 0;
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
    pay(call.connection, call.channel);
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
  return join(call, request.id, request.uid, bytes_of(request.addr), false);
}

int RdmaCmServer::join_mcast(Call& call) {
  rdma_ucm_join_mcast request;
  if (!read(call, request) || request.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  return join(call, request.id, request.uid, bytes_of(request.addr),
              request.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
}

int RdmaCmServer::join(Call& call, uint32_t id, uint64_t uid, std::span<const std::byte> address,
                       bool send_only) {
  if (call.room < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  if (const int error = check(call, id); error != 0) return error;
  const auto group_address = cm::read_sockaddr(address);
  if (!group_address) return EINVAL;
  rdma_ucm_create_id_resp answer{};
  if (const int error = cm_.join(id, *group_address, send_only, answer.id); error != 0) return error;
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
