// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/listener.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "tools/uroced/message.h"

namespace uroce::daemon {

namespace {

constexpr int kBacklog = 128;
// For an owner to answer, and all in all for one that leaves to be gone.
constexpr auto kPatience = std::chrono::seconds(3);
constexpr useconds_t kPauseUs = 20'000;

std::string own_name(uid_t uid) {
  char name[32];
  std::snprintf(name, sizeof name, UROCE_DAEMON_NAME_FORMAT, uid);
  return name;
}

socklen_t address_of(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Fd connect_to(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t length = address_of(name, address);
  // Where the owner does not accept, connect() waits for room in its queue.
  const timeval patience{kPatience.count(), 0};
  if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

// None with `why` and errno.
Fd listen_at(const std::string& name, std::string& why) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address;
  const socklen_t length = address_of(name, address);
  if (fd && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      listen(fd.get(), kBacklog) == 0)
    return fd;
  const int error = errno;
  why = fmt::format("cannot listen on @{}: {}", name, std::strerror(error));
  fd.reset();
  errno = error;
  return fd;
}

enum class Answer { serves, makes_way, refuses, none };

// One that is about to leave still has the name, and does not answer.
Answer ask(int fd) {
  uroce_hello hello{};
  hello.role = UROCE_ROLE_WORLD;
  std::snprintf(hello.version, sizeof hello.version, "%s", UROCE_VERSION);
  const uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, UROCE_MSG_HELLO, 1, 0};
  if (send_message(fd, header, std::as_bytes(std::span(&hello, 1)), {}) != Sent::yes) return Answer::none;
  pollfd waits{fd, POLLIN, 0};
  Message reply;
  if (poll(&waits, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) != 1)
    return Answer::none;
  switch (receive_message(fd, reply)) {
    case Receive::ended:
    case Receive::nothing: return Answer::none;
    // One of another protocol version answers too: that is for the client to see.
    case Receive::garbage: return Answer::serves;
    case Receive::message: break;
  }
  if (reply.header.status == EAGAIN) return Answer::makes_way;
  return reply.header.status == EPERM ? Answer::refuses : Answer::serves;
}

// Nothing: worth another try.
std::optional<Listen> look_at_owner(const std::string& name, uid_t uid, std::string& why) {
  const bool common = name == UROCE_DAEMON_COMMON_NAME;
  const Fd peer = connect_to(name);
  ucred owner{};
  socklen_t bytes = sizeof owner;
  if (!peer || getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &owner, &bytes) != 0) {
    why = fmt::format(
        "the name @{} is taken in this network namespace, but its owner does not answer ({}); try again",
        name, std::strerror(errno));
    return std::nullopt;
  }
  why = fmt::format(
      "process {} of uid {} has taken the name @{} in this network namespace and does not serve uid {}; end "
      "that process",
      owner.pid, owner.uid, name, uid);
  if (owner.uid != uid && !common) return Listen::refused;
  switch (ask(peer.get())) {
    case Answer::none: return std::nullopt;
    case Answer::serves: return owner.uid == uid ? Listen::served : Listen::refused;
    case Answer::makes_way:
      why = fmt::format("the idle uroced of uid {} (process {}) does not make way; try again", owner.uid,
                        owner.pid);
      return std::nullopt;
    case Answer::refuses: break;
  }
  char text[512];
  std::snprintf(text, sizeof text, UROCE_FOREIGN_DAEMON_FORMAT, owner.uid, static_cast<unsigned>(owner.pid),
                uid);
  why = text;
  return Listen::refused;
}

// The common name first: of two users who start at once, one gets it. Nothing: worth another try.
std::optional<Listen> take_names(uid_t uid, Names& out, std::string& why) {
  for (const auto& [name, fd] :
       {std::pair(std::string(UROCE_DAEMON_COMMON_NAME), &Names::common), {own_name(uid), &Names::own}}) {
    out.*fd = listen_at(name, why);
    if (out.*fd) continue;
    return errno == EADDRINUSE ? look_at_owner(name, uid, why) : Listen::failed;
  }
  return Listen::listening;
}

}  // namespace

Fd connect_to_daemon(uid_t uid) {
  return connect_to(own_name(uid));
}

Listen listen_as(uid_t uid, Names& out, std::string& why) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    Names names;
    const auto outcome = take_names(uid, names, why);
    if (outcome == Listen::listening) out = std::move(names);
    if (outcome) return *outcome;
    if (std::chrono::steady_clock::now() >= end) return Listen::failed;
    names = {};
    usleep(kPauseUs);
  }
}

}  // namespace uroce::daemon
