// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/connections.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "tools/uroced/log.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace uroce::daemon {

namespace {

constexpr int kMessagesPerTurn = 16;  // then the others
constexpr size_t kMostQueued = 256;
constexpr uint32_t kMostStrangers = 32;  // connections of other uids at a time

bool ask_for_peer(int socket, ucred& peer) {
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
}

Fd pidfd_of_peer(int socket, pid_t pid) {
  int fd = -1;
  socklen_t bytes = sizeof fd;
  // The exact process, if the kernel can tell it (6.5); else the one that has the number now.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0) return Fd(fd);
  if (pid <= 0) return Fd();
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

Connections::Connections(Loop& loop, Registry& registry, KeeperLine& keeper, Names names,
                         ConnectionUser& user)
    : loop_(loop),
      registry_(registry),
      keeper_(keeper),
      names_(std::move(names)),
      user_(user),
      clients_(kMaxConnections),
      accept_again_(loop, [this] { start_accepting(); }) {
  accept_again_.start(std::chrono::milliseconds(0));
}

Connections::~Connections() = default;

void Connections::adopt() {
  for (uint32_t i = 1; i < kMaxConnections; ++i) {
    Fd socket = keeper_.take_inherited(Keep::connection, i);
    Fd pidfd = keeper_.take_inherited(Keep::client_pidfd, i);
    if (!socket) {
      if (registry_.connection(i).live != 0) registry_.edit(registry_.connection(i).live) = 0;
      continue;
    }
    // Not live yet: the earlier worker died while it accepted this one.
    if (registry_.connection(i).live == 0 && !write_record(i, socket.get())) continue;
    start(i, std::move(socket), std::move(pidfd));
  }
  for (uint32_t i = 1; i < kMaxConnections; ++i) {
    if (clients_[i] != nullptr) send(i, UROCE_MSG_RESTARTED, 0, 0);
  }
}

void Connections::stop_accepting() {
  accept_again_.cancel();
  accepting_.clear();
  names_ = {};
}

void Connections::start_accepting() {
  for (const int listener : {names_.common.get(), names_.own.get()})
    accepting_.push_back(
        std::make_unique<FdWatch>(loop_, listener, [this, listener] { accept_some(listener); }));
}

void Connections::accept_some(int listener) {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    Fd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      accept_one(std::move(socket));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      spdlog::warn("cannot accept a client: {}", std::strerror(errno));
      // It waits in the queue; so do we, instead of spinning.
      loop_.later([this] { accepting_.clear(); });
      accept_again_.start(std::chrono::milliseconds(200));
    }
    return;
  }
}

bool Connections::write_record(uint32_t position, int socket) {
  ucred peer{};
  if (!ask_for_peer(socket, peer)) return false;
  ConnectionRecord& record = registry_.edit(registry_.connection(position));
  record = {};
  record.pid = static_cast<uint32_t>(peer.pid);
  record.uid = peer.uid;
  record.live = 1;
  return true;
}

void Connections::accept_one(Fd socket) {
  ucred peer{};
  if (!ask_for_peer(socket.get(), peer)) return;
  const bool stranger = peer.uid != geteuid();
  // Each gets its refusal, but not the places of those whom we serve.
  if (stranger && strangers_ >= kMostStrangers) return;
  // Round and round: a position that was just left is not confused with its next owner.
  uint32_t position = 0;
  for (uint32_t step = 1; step < kMaxConnections && position == 0; ++step) {
    const uint32_t candidate = 1 + (last_position_ + step - 1) % (kMaxConnections - 1);
    if (clients_[candidate] == nullptr && registry_.connection(candidate).live == 0) position = candidate;
  }
  if (position == 0) {
    spdlog::warn("process {} is turned away: {} clients are connected, which is the most", peer.pid,
                 kMaxConnections - 1);
    return;
  }
  last_position_ = position;
  Fd pidfd = pidfd_of_peer(socket.get(), peer.pid);
  if (!keeper_.keep(Keep::connection, position, socket.get())) {
    spdlog::warn("process {} is turned away, the keeper cannot hold its connection: {}", peer.pid,
                 std::strerror(errno));
    return;
  }
  if (pidfd) keeper_.keep(Keep::client_pidfd, position, pidfd.get());
  write_record(position, socket.get());
  start(position, std::move(socket), std::move(pidfd));
}

void Connections::start(uint32_t position, Fd socket, Fd pidfd) {
  auto client = std::make_unique<Client>();
  client->stranger = registry_.connection(position).uid != geteuid();
  if (client->stranger) strangers_++;
  client->socket = std::move(socket);
  client->pidfd = std::move(pidfd);
  client->watch = std::make_unique<FdWatch>(
      loop_, client->socket.get(), [this, position] { read_some(position); },
      [this, position] { write_some(position); });
  if (client->pidfd) {
    client->death = std::make_unique<FdWatch>(loop_, client->pidfd.get(),
                                              [this, position] { close(position, "its process has ended"); });
  }
  clients_[position] = std::move(client);
}

void Connections::read_some(uint32_t position) {
  for (int i = 0; i < kMessagesPerTurn && clients_[position] != nullptr && !clients_[position]->closes; ++i) {
    Message message;
    switch (receive_message(clients_[position]->socket.get(), message)) {
      case Receive::message: user_.on_message(position, message); break;
      case Receive::nothing: return;
      case Receive::ended: return close(position, "it has closed");
      case Receive::garbage:
        if (message.header.magic == UROCE_MSG_MAGIC && message.header.version != UROCE_MSG_VERSION) {
          uroce_hello_reply told{};
          std::snprintf(told.version, sizeof told.version, "%s", UROCE_VERSION);
          std::snprintf(told.text, sizeof told.text,
                        "uroced %s speaks protocol version %d, this program %d: install one version of both "
                        "and run `uroce stop`",
                        UROCE_VERSION, UROCE_MSG_VERSION, message.header.version);
          reply(position, message.header, EPROTO, std::as_bytes(std::span(&told, 1)));
          return close_after_reply(position);
        }
        return close(position, "it does not speak our protocol");
    }
  }
}

void Connections::write_some(uint32_t position) {
  Client& client = *clients_[position];
  while (!client.queue.empty()) {
    Packet& packet = client.queue.front();
    std::vector<int> numbers;
    for (const Fd& fd : packet.descriptors) numbers.push_back(fd.get());
    const Sent sent = send_message(client.socket.get(), packet.header, packet.payload, numbers);
    if (sent == Sent::would_block) return;
    if (sent == Sent::no) return close(position, "it cannot be answered");
    client.queue.pop_front();
  }
  client.watch->want_writable(false);
  if (client.closes) close(position, "all is said");
}

void Connections::send(uint32_t position, uint16_t type, uint32_t seq, int status,
                       std::span<const std::byte> payload, std::span<const int> descriptors) {
  if (clients_[position] == nullptr) return;
  Client& client = *clients_[position];
  const uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, type, seq, status};
  if (client.queue.empty()) {
    const Sent sent = send_message(client.socket.get(), header, payload, descriptors);
    if (sent == Sent::yes) return;
    if (sent == Sent::no) return;  // its end will be heard
  }
  if (client.queue.size() >= kMostQueued) {
    const uint32_t pid = registry_.connection(position).pid;
    loop_.later([this, position, pid] {
      if (clients_[position] != nullptr && registry_.connection(position).pid == pid) {
        close(position, "it does not read its messages (ECONNABORTED)");
      }
    });
    return;
  }
  Packet packet{header, {payload.begin(), payload.end()}, {}};
  for (const int fd : descriptors) packet.descriptors.emplace_back(dup(fd));
  client.queue.push_back(std::move(packet));
  client.watch->want_writable(true);
}

void Connections::reply(uint32_t position, const uroce_msg& request, int status,
                        std::span<const std::byte> payload, std::span<const int> descriptors) {
  if (clients_[position] == nullptr) return;
  clients_[position]->answered = true;
  clients_[position]->answered_seq = request.seq;
  send(position, request.type, request.seq, status, payload, descriptors);
}

bool Connections::was_answered(uint32_t position, uint32_t seq) const {
  return clients_[position] != nullptr && clients_[position]->answered &&
         clients_[position]->answered_seq == seq;
}

bool Connections::try_send(uint32_t position, uint16_t type, std::span<const std::byte> payload) {
  if (clients_[position] == nullptr || !clients_[position]->queue.empty()) return false;
  const uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, type, 0, 0};
  return send_message(clients_[position]->socket.get(), header, payload, {}) == Sent::yes;
}

void Connections::close_after_reply(uint32_t position) {
  if (clients_[position] == nullptr) return;
  if (clients_[position]->queue.empty()) return close(position, "all is said");
  clients_[position]->closes = true;
}

void Connections::close(uint32_t position, const std::string& reason) {
  if (clients_[position] == nullptr) return;
  const ConnectionRecord& record = registry_.connection(position);
  spdlog::debug("client {} (process {}) leaves: {}", position, record.pid, reason);
  user_.on_ended(position);
  if (clients_[position]->stranger) strangers_--;
  clients_[position]->watch->silence();
  if (clients_[position]->death != nullptr) clients_[position]->death->silence();
  // Its watches may be what is calling us.
  loop_.later([gone = std::shared_ptr<Client>(std::move(clients_[position]))] {});
  keeper_.drop(Keep::connection, position);
  keeper_.drop(Keep::client_pidfd, position);
  registry_.edit(record.live) = 0;
}

Fd Connections::duplicate_pidfd(uint32_t position) const {
  return clients_[position] == nullptr || !clients_[position]->pidfd
             ? Fd()
             : Fd(dup(clients_[position]->pidfd.get()));
}

uint32_t Connections::count() const {
  uint32_t n = 0;
  for (const auto& client : clients_) n += client != nullptr ? 1 : 0;
  return n;
}

}  // namespace uroce::daemon
