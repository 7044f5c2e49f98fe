// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "netlink/rdma/conversation.h"

namespace uroce::netlink {

namespace {

constexpr size_t kLongestRequest = 32 * 1024;
constexpr int kMostRequests = 64;                   // read in one dispatch
constexpr int kMostAnswers = 256;                   // to one client in one dispatch
constexpr size_t kMostClients = kMostOpenRequests;  // that have answers waiting
constexpr int kReceiveBuffer = 1 << 20;
// A netlink socket does not say when its receiver has room again: look, after a pause that doubles.
constexpr unsigned kFirstPauseMs = 1, kLongestPauseMs = 100;
constexpr int kMostAttempts = 300;  // without any success: about half a minute

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Waiting {
  Conversation conversation;
  int attempts = 0;
};

class LiveRdmaServer final : public RdmaServer {
 public:
  LiveRdmaServer(RdmaModel& model, int fresh_or_earlier, std::span<OpenRequest> requests)
      : model_(model),
        requests_(requests),
        socket_(fresh_or_earlier),
        timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
        both_(epoll_create1(EPOLL_CLOEXEC)) {}

  bool bind_to_any_port() {
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    return bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  bool start(bool bound, std::string& why) {
    sockaddr_nl address{};
    socklen_t bytes = sizeof address;
    const int on = 1, buffer = kReceiveBuffer;
    if (socket_.get() < 0 || (!bound && !bind_to_any_port()) ||
        getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
        setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 || !watch(socket_.get()) ||
        !watch(timer_.get())) {
      why = std::string("cannot serve RDMA netlink over NETLINK_USERSOCK: ") + std::strerror(errno);
      return false;
    }
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    port_ = address.nl_pid;
    end_open_requests();
    return true;
  }

  int descriptor() const override { return both_.get(); }
  uint32_t port() const override { return port_; }
  int socket() const override { return socket_.get(); }

  void dispatch() override {
    uint64_t expired = 0;
    if (read(timer_.get(), &expired, sizeof expired) == sizeof expired) retry();
    for (int i = 0; i < kMostRequests && receive(); ++i) {
    }
    set_timer();
  }

 private:
  using Clients = std::map<uint32_t, Waiting>;

  bool watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(both_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  // False when none waits.
  bool receive() {
    sockaddr_nl from{};
    iovec part{buffer_.data(), buffer_.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr header{};
    header.msg_name = &from;
    header.msg_namelen = sizeof from;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) return errno == EINTR || errno == ENOBUFS;
    // Port 0 would be the kernel, which does not speak here.
    if ((header.msg_flags & MSG_TRUNC) == 0 && from.nl_pid != 0) {
      answer(from.nl_pid, {buffer_.data(), static_cast<size_t>(n)}, is_administrator(header));
    }
    return true;
  }

  static bool is_administrator(msghdr& header) {
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
      ucred sender;
      std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
      return sender.uid == 0 || sender.uid == geteuid();
    }
    return false;
  }

  void answer(uint32_t client, std::span<const uint8_t> datagram, bool administrator) {
    auto at = clients_.find(client);
    if (at == clients_.end()) {
      if (clients_.size() >= kMostClients) return;
      at = clients_.emplace(client, Waiting{Conversation(model_, client)}).first;
    }
    note(client, datagram);
    at->second.conversation.on_datagram(datagram, administrator);
    if (!deliver(client, at->second)) forget(at);
  }

  Clients::iterator forget(Clients::iterator at) {
    for (OpenRequest& open : requests_) {
      if (open.port == at->first) open.port = 0;
    }
    return clients_.erase(at);
  }

  void note(uint32_t client, std::span<const uint8_t> datagram) {
    if (datagram.size() < sizeof(nlmsghdr)) return;
    OpenRequest* entry = nullptr;
    for (OpenRequest& open : requests_) {
      if (open.port == client || (open.port == 0 && entry == nullptr)) entry = &open;
      if (open.port == client) break;
    }
    if (entry == nullptr) return;
    std::memcpy(&entry->request, datagram.data(), sizeof entry->request);
    entry->port = client;
  }

  void end_open_requests() {
    for (const OpenRequest& open : requests_) {
      if (open.port == 0) continue;
      auto& waiting = clients_.emplace(open.port, Waiting{Conversation(model_, open.port)}).first->second;
      waiting.conversation.fail(open.request, EIO, "uroced was restarted while it answered; ask again");
    }
    retry();
    set_timer();
  }

  // False when there is nothing more to say to this client, or nobody there.
  bool deliver(uint32_t client, Waiting& waiting) {
    sockaddr_nl to{};
    to.nl_family = AF_NETLINK;
    to.nl_pid = client;
    for (int i = 0; i < kMostAnswers; ++i) {
      const Bytes* answer = waiting.conversation.next();
      if (answer == nullptr) return false;
      const ssize_t n = sendto(socket_.get(), answer->data(), answer->size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                               reinterpret_cast<const sockaddr*>(&to), sizeof to);
      if (n >= 0) {
        waiting.conversation.sent();
        waiting.attempts = 0;
        pause_ms_ = kFirstPauseMs;
      } else if (errno != EINTR) {
        return (errno == EAGAIN || errno == ENOBUFS) && ++waiting.attempts < kMostAttempts;
      }
    }
    return true;
  }

  void retry() {
    pause_ms_ = std::min(pause_ms_ * 2, kLongestPauseMs);
    for (auto at = clients_.begin(); at != clients_.end();) {
      at = deliver(at->first, at->second) ? std::next(at) : forget(at);
    }
  }

  void set_timer() {
    itimerspec when{};
    if (!clients_.empty()) when.it_value.tv_nsec = static_cast<long>(pause_ms_) * 1'000'000;
    timerfd_settime(timer_.get(), 0, &when, nullptr);
  }

  RdmaModel& model_;
  const std::span<OpenRequest> requests_;
  Fd socket_, timer_, both_;
  uint32_t port_ = 0;
  unsigned pause_ms_ = kFirstPauseMs;
  Clients clients_;  // only those with answers waiting
  alignas(nlmsghdr) std::array<uint8_t, kLongestRequest> buffer_{};
};

}  // namespace

std::unique_ptr<RdmaServer> RdmaServer::open(RdmaModel& model, std::string& why,
                                             std::span<OpenRequest> requests) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_USERSOCK);
  auto server = std::make_unique<LiveRdmaServer>(model, fd, requests);
  return server->start(false, why) ? std::move(server) : nullptr;
}

std::unique_ptr<RdmaServer> RdmaServer::adopt(RdmaModel& model, int socket, std::string& why,
                                              std::span<OpenRequest> requests) {
  auto server = std::make_unique<LiveRdmaServer>(model, socket, requests);
  return server->start(true, why) ? std::move(server) : nullptr;
}

}  // namespace uroce::netlink
