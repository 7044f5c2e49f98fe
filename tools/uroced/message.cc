// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/message.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::daemon {

namespace {

constexpr size_t kMostDescriptors = 8;

void take_descriptors(msghdr& header, std::vector<Fd>& out) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
}

}  // namespace

Receive receive_message(int fd, Message& out) {
  static thread_local std::array<std::byte, UROCE_MSG_MAX> buffer;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Receive::nothing : Receive::ended;
  take_descriptors(header, out.descriptors);
  if (n == 0) return Receive::ended;
  if (static_cast<size_t>(n) < sizeof out.header) return Receive::garbage;
  std::memcpy(&out.header, buffer.data(), sizeof out.header);
  out.payload.assign(buffer.begin() + sizeof out.header, buffer.begin() + n);
  const bool whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole && out.header.magic == UROCE_MSG_MAGIC && out.header.version == UROCE_MSG_VERSION
             ? Receive::message
             : Receive::garbage;
}

Sent send_message(int fd, const uroce_msg& header, std::span<const std::byte> payload,
                  std::span<const int> descriptors) {
  iovec parts[2] = {{const_cast<uroce_msg*>(&header), sizeof header},
                    {const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = payload.empty() ? 1 : 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t n;
  do {
    n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n >= 0) return Sent::yes;
  return errno == EAGAIN || errno == EWOULDBLOCK ? Sent::would_block : Sent::no;
}

}  // namespace uroce::daemon
