// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/broker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace uroce::runtime {
namespace {

constexpr int kBrokerDescriptors = 3;  // receive socket, slot page, device page

// The daemon of `uid`, whose process must be of uid 0 or ours: anyone may bind an abstract name.
int connect_to(uid_t uid) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, UROCE_DAEMON_NAME_FORMAT, uid);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  ucred peer{};
  socklen_t peer_bytes = sizeof peer;
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0) {
    error = errno;
  } else if (peer.uid != 0 && peer.uid != geteuid()) {
    error = EPERM;
  }
  if (error == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

struct HelloReply {
  uroce_msg header{};
  uroce_hello_reply body{};
  int descriptors[kBrokerDescriptors] = {-1, -1, -1};
};

bool receive_hello_reply(int fd, HelloReply& reply) {
  iovec parts[2] = {{&reply.header, sizeof reply.header}, {&reply.body, sizeof reply.body}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return false;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int received;
      std::memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof received);
      if (i < kBrokerDescriptors && reply.descriptors[i] < 0) {
        reply.descriptors[i] = received;
      } else {
        close(received);
      }
    }
  }
  if (static_cast<size_t>(n) < sizeof reply.header || reply.header.magic != UROCE_MSG_MAGIC) {
    errno = EPROTO;
    return false;
  }
  // The kernel leaves out descriptors for which the process has no number.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;
    return false;
  }
  return true;
}

// A page the daemon handed over: its size is checked, since touching a mapping beyond the file's end would
// kill us.
void* map_page(int fd, size_t bytes, int protection) {
  struct stat st;
  if (fstat(fd, &st) != 0) return nullptr;
  if (st.st_size < static_cast<off_t>(bytes)) {
    errno = EPROTO;
    return nullptr;
  }
  void* page = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return page == MAP_FAILED ? nullptr : page;
}

std::string with_errno(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

}  // namespace

std::unique_ptr<Broker> Broker::attach(uint32_t slot, uint64_t cookie, std::string& why) {
  std::unique_ptr<Broker> broker(new Broker);
  broker->connection_ = connect_to(geteuid());
  if (broker->connection_ < 0 && geteuid() != 0) broker->connection_ = connect_to(0);
  if (broker->connection_ < 0) {
    why = with_errno("uroced does not answer in this network namespace");
    return nullptr;
  }
  struct {
    uroce_msg header;
    uroce_hello hello;
  } request{};
  request.header = {UROCE_MSG_MAGIC, UROCE_MSG_VERSION, UROCE_MSG_HELLO, 1, 0};
  request.hello.role = UROCE_ROLE_BROKER;
  request.hello.arg = slot;
  request.hello.cookie = cookie;
  std::snprintf(request.hello.version, sizeof request.hello.version, "%s", UROCE_VERSION);
  if (send(broker->connection_, &request, sizeof request, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof request)) {
    why = with_errno("uroced did not take the request for sockets");
    return nullptr;
  }
  HelloReply reply;
  const bool answered = receive_hello_reply(broker->connection_, reply);
  broker->receive_socket_ = reply.descriptors[0];
  const int slot_fd = reply.descriptors[1], device_fd = reply.descriptors[2];
  bool mapped = false;
  if (!answered) {
    why = with_errno(errno == EMFILE ? "the sockets from uroced need more descriptors than `ulimit -n` leaves"
                                     : "uroced did not answer the request for sockets");
  } else if (reply.header.status != 0) {
    reply.body.text[sizeof reply.body.text - 1] = '\0';
    why = reply.body.text;
    errno = reply.header.status;
  } else {
    mapped = broker->map_pages(slot_fd, device_fd, why);
  }
  const int error = errno;
  if (slot_fd >= 0) close(slot_fd);
  if (device_fd >= 0) close(device_fd);
  errno = error;
  return mapped ? std::move(broker) : nullptr;
}

bool Broker::map_pages(int slot_fd, int device_fd, std::string& why) {
  if (receive_socket_ < 0 || slot_fd < 0 || device_fd < 0) {
    errno = EPROTO;
    why = "uroced answered without the sockets (another version?)";
    return false;
  }
  slot_page_ =
      static_cast<uroce_slot_page*>(map_page(slot_fd, sizeof(uroce_slot_page), PROT_READ | PROT_WRITE));
  device_page_ =
      static_cast<const uroce_device_page*>(map_page(device_fd, sizeof(uroce_device_page), PROT_READ));
  if (slot_page_ != nullptr && device_page_ != nullptr) return true;
  why = with_errno("cannot map the pages shared with uroced");
  return false;
}

Broker::~Broker() {
  const int error = errno;
  if (slot_page_ != nullptr) munmap(slot_page_, sizeof *slot_page_);
  if (device_page_ != nullptr) munmap(const_cast<uroce_device_page*>(device_page_), sizeof *device_page_);
  if (receive_socket_ >= 0) close(receive_socket_);
  if (connection_ >= 0) close(connection_);
  errno = error;
}

int Broker::take_receive_socket() {
  const int fd = receive_socket_;
  receive_socket_ = -1;
  return fd;
}

bool Broker::relay(std::span<const std::byte> packet, const engine::RxMeta& meta, uint32_t slot) {
  struct {
    uroce_msg header;
    uroce_relay relay;
  } head{};
  head.header = {UROCE_MSG_MAGIC, UROCE_MSG_VERSION, UROCE_MSG_RELAY, 0, 0};
  head.relay.slot = slot;
  head.relay.ifindex = meta.ifindex;
  std::memcpy(head.relay.source, meta.source.raw.data(), 16);
  std::memcpy(head.relay.destination, meta.destination.raw.data(), 16);
  head.relay.source_port = meta.source_port;
  head.relay.traffic_class = meta.traffic_class;
  head.relay.hop_limit = meta.hop_limit;
  iovec parts[2] = {{&head, sizeof head}, {const_cast<std::byte*>(packet.data()), packet.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return sendmsg(connection_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

Broker::Input Broker::read_one(
    const std::function<void(std::span<const std::byte>, const engine::RxMeta&)>& on_packet) {
  struct {
    uroce_msg header;
    uroce_relay relay;
    std::byte packet[engine::TxBatch::kMaxPacket];
  } input;
  constexpr size_t kHead = sizeof input.header + sizeof input.relay;
  const ssize_t n = recv(connection_, &input, sizeof input, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Input::nothing : Input::gone;
  if (n == 0) return Input::gone;
  if (static_cast<size_t>(n) < sizeof input.header || input.header.magic != UROCE_MSG_MAGIC)
    return Input::nothing;
  if (input.header.type == UROCE_MSG_GONE) return Input::gone;
  if (input.header.type != UROCE_MSG_RELAY || static_cast<size_t>(n) < kHead) return Input::nothing;
  engine::RxMeta meta;
  std::memcpy(meta.source.raw.data(), input.relay.source, 16);
  std::memcpy(meta.destination.raw.data(), input.relay.destination, 16);
  meta.ifindex = input.relay.ifindex;
  meta.source_port = input.relay.source_port;
  meta.traffic_class = input.relay.traffic_class;
  meta.hop_limit = input.relay.hop_limit;
  on_packet({input.packet, static_cast<size_t>(n) - kHead}, meta);
  return Input::packet;
}

}  // namespace uroce::runtime
