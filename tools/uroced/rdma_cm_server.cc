// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/rdma_cm_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>

#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

uint64_t random_seed() {
  std::random_device source;
  return static_cast<uint64_t>(source()) << 32 | source();
}

}  // namespace

RdmaCmServer::RdmaCmServer(Loop& loop, Registry& registry, KeeperLine& keeper, Connections& connections,
                           DeviceSet& devices, netlink::RouteTable& routes, SlotGroup& slots)
    : loop_(loop),
      registry_(registry),
      keeper_(keeper),
      connections_(connections),
      answers_(registry, connections),
      slots_(slots),
      host_(registry, devices, routes),
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
  if (slots_.belongs_to_module()) return;  // and so does QP 1
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
      [this, connection] { pay(channels_[connection]); });
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
  pay(channel);
}

void RdmaCmServer::pay(Channel& channel) {
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

// ---- commands

void RdmaCmServer::on_command(uint32_t connection, const Message& message) {
  const Answers::Request request = answers_.begin(connection, message);
  if (request == Answers::Request::answered) return;
  if (request != Answers::Request::send_again) {
    std::vector<std::byte> reply;
    int error = EIO;
    try {
      if (request == Answers::Request::fresh) error = execute(connection, message, reply);
    } catch (const std::bad_alloc&) {
      error = ENOMEM;
    }
    answers_.store(connection, message.header.seq, error, reply);
    answers_.finish();
  }
  answers_.send(connection, message.header);
  flush();
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

}  // namespace uroce::daemon
