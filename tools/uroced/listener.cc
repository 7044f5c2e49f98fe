// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/listener.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "tools/uroced/message.h"

namespace uroce::daemon {

namespace {

constexpr int kBacklog = 128;

socklen_t daemon_address(uid_t uid, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, UROCE_DAEMON_NAME_FORMAT, uid);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

// Whether it serves: one that is about to leave still has the name.
bool answers(int fd) {
  constexpr int kPatienceMs = 5000;
  uroce_hello hello{};
  hello.role = UROCE_ROLE_WORLD;
  std::snprintf(hello.version, sizeof hello.version, "%s", UROCE_VERSION);
  const uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, UROCE_MSG_HELLO, 1, 0};
  if (send_message(fd, header, std::as_bytes(std::span(&hello, 1)), {}) != Sent::yes) return false;
  pollfd waits{fd, POLLIN, 0};
  Message reply;
  // One of another protocol version answers too: that is for the client to see.
  return poll(&waits, 1, kPatienceMs) == 1 && receive_message(fd, reply) != Receive::ended;
}

Listen look_at_owner(uid_t uid, std::string& why) {
  const Fd peer = connect_to_daemon(uid);
  ucred owner{};
  socklen_t bytes = sizeof owner;
  if (!peer || getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &owner, &bytes) != 0) {
    why = fmt::format(
        "the name @uroce-{} is taken in this network namespace, but its owner does not answer ({}); try "
        "again",
        uid, std::strerror(errno));
    return Listen::failed;
  }
  if (owner.uid == uid) {
    if (answers(peer.get())) return Listen::served;
    why = fmt::format("process {} has the name @uroce-{} in this network namespace, but does not serve",
                      owner.pid, uid);
    return Listen::failed;
  }
  why = fmt::format(
      "process {} of uid {} has taken the name @uroce-{} in this network namespace, which is meant for uid "
      "{}; end that process",
      owner.pid, owner.uid, uid, uid);
  return Listen::squatted;
}

}  // namespace

Fd connect_to_daemon(uid_t uid) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t length = daemon_address(uid, address);
  if (fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

Listen listen_as(uid_t uid, Fd& out, std::string& why) {
  // A name whose owner is just leaving is free a moment later.
  for (int attempt = 0; attempt < 20; ++attempt) {
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address;
    const socklen_t length = daemon_address(uid, address);
    if (!fd) {
      why = fmt::format("cannot make a Unix socket: {}", std::strerror(errno));
      return Listen::failed;
    }
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      if (listen(fd.get(), kBacklog) == 0) {
        out = std::move(fd);
        return Listen::listening;
      }
      why = fmt::format("cannot listen on @uroce-{}: {}", uid, std::strerror(errno));
      return Listen::failed;
    }
    if (errno != EADDRINUSE) {
      why = fmt::format("cannot bind @uroce-{}: {}", uid, std::strerror(errno));
      return Listen::failed;
    }
    const Listen owner = look_at_owner(uid, why);
    if (owner != Listen::failed) return owner;
    usleep(10'000);
  }
  return Listen::failed;
}

}  // namespace uroce::daemon
