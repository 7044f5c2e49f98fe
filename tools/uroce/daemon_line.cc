// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/daemon_line.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "kmod-shim/uapi/uroce_daemon.h"

namespace uroce::cli {

namespace {

using nlohmann::json;

constexpr int kPatienceMs = 10'000;
constexpr int kMostPages = 10'000;

// errno tells why not.
Fd connect_to_daemon(uid_t owner) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, UROCE_DAEMON_NAME_FORMAT, owner);
  const auto bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  if (fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return fd;
  const int error = errno;
  fd.close_now();
  errno = error;
  return fd;
}

struct Received {
  uroce_msg header{};
  std::vector<std::byte> payload;
};

// The next message; nullopt when the daemon is gone, silent for too long, or speaks something else.
std::optional<Received> next_message(int fd) {
  std::vector<std::byte> buffer(UROCE_MSG_MAX);
  for (;;) {
    pollfd waits{fd, POLLIN, 0};
    const int ready = poll(&waits, 1, kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t n = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    Received message;
    if (n < static_cast<ssize_t>(sizeof message.header)) return std::nullopt;
    std::memcpy(&message.header, buffer.data(), sizeof message.header);
    if (message.header.magic != UROCE_MSG_MAGIC || message.header.version != UROCE_MSG_VERSION)
      return std::nullopt;
    message.payload.assign(buffer.begin() + sizeof message.header, buffer.begin() + n);
    return message;
  }
}

}  // namespace

std::unique_ptr<DaemonLine> DaemonLine::connect(Failure& failure, std::string& why) {
  auto line = connect_as(geteuid(), failure, why);
  if (line == nullptr && failure == Failure::nobody && geteuid() != 0) line = connect_as(0, failure, why);
  return line;
}

std::unique_ptr<DaemonLine> DaemonLine::connect_as(uid_t owner, Failure& failure, std::string& why) {
  std::unique_ptr<DaemonLine> line(new DaemonLine(connect_to_daemon(owner)));
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (!line->fd_) {
    failure = errno == ECONNREFUSED ? Failure::nobody : Failure::broken;
    why = failure == Failure::nobody ? "no uroced runs in this network namespace for this user; it starts by "
                                       "itself on first use, for example by "
                                       "`uroce run -- rdma link`"
                                     : fmt::format("cannot reach uroced: {}", std::strerror(errno));
    return nullptr;
  }
  if (getsockopt(line->fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
      (peer.uid != 0 && peer.uid != geteuid())) {
    failure = Failure::stranger;
    why = fmt::format(
        "process {} of uid {} has taken the name @uroce-{} in this network namespace, and it is neither "
        "root's nor yours; end "
        "that process",
        peer.pid, peer.uid, owner);
    return nullptr;
  }
  return line->hello(failure, why) ? std::move(line) : nullptr;
}

bool DaemonLine::hello(Failure& failure, std::string& why) {
  uroce_hello body{};
  body.role = UROCE_ROLE_ADMIN;
  std::snprintf(body.version, sizeof body.version, "%s", UROCE_VERSION);
  int32_t status = 0;
  std::vector<std::byte> reply;
  uroce_hello_reply told{};
  failure = Failure::broken;
  if (!exchange(UROCE_MSG_HELLO, std::as_bytes(std::span(&body, 1)), status, reply) ||
      reply.size() != sizeof told) {
    why =
        "uroced does not answer, or not in a way this program understands (stopped, or another version?); "
        "end it: kill the process `pgrep uroced` shows";
    return false;
  }
  std::memcpy(&told, reply.data(), sizeof told);
  told.version[sizeof told.version - 1] = '\0';
  told.text[sizeof told.text - 1] = '\0';
  version_ = told.version;
  pid_ = static_cast<pid_t>(told.pid);
  if (status != 0) {
    failure = Failure::refused;
    why = told.text[0] != '\0' ? told.text : std::strerror(status);
    return false;
  }
  failure = Failure::none;
  return true;
}

bool DaemonLine::send_request(uint16_t type, std::span<const std::byte> payload) const {
  uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, type, seq_, 0};
  iovec parts[] = {{&header, sizeof header}, {const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return sendmsg(fd_.get(), &message, MSG_NOSIGNAL) >= 0;
}

bool DaemonLine::exchange(uint16_t type, std::span<const std::byte> payload, int32_t& status,
                          std::vector<std::byte>& reply) {
  ++seq_;
  if (!send_request(type, payload)) return false;
  while (auto message = next_message(fd_.get())) {
    if (message->header.type == UROCE_MSG_RESTARTED) {
      if (!send_request(type, payload)) return false;
    } else if (message->header.type == type && message->header.seq == seq_) {
      status = message->header.status;
      reply = std::move(message->payload);
      return true;
    }
  }
  return false;
}

json DaemonLine::ask(const json& request) {
  const std::string text = request.dump();
  int32_t status = 0;
  std::vector<std::byte> reply;
  if (!exchange(UROCE_MSG_ADMIN, std::as_bytes(std::span(text)), status, reply)) {
    return {{"ok", false}, {"error", "uroced has stopped answering"}};
  }
  const std::string_view told(reinterpret_cast<const char*>(reply.data()), reply.size());
  json answer = json::parse(told, nullptr, false);
  if (!answer.is_object())
    return {{"ok", false}, {"error", "uroced answers in no form this program understands"}};
  return answer;
}

json DaemonLine::status() {
  json whole = ask({{"command", "status"}});
  json last = whole;
  for (int page = 0; page < kMostPages && (last.contains("next_device") || last.contains("next_context"));
       ++page) {
    json request = {{"command", "status"}};
    // A list that is complete is asked for from beyond its end.
    for (const char* member : {"next_device", "next_context"})
      request[member] = last.value(member, UINT32_MAX);
    last = ask(request);
    for (const char* list : {"devices", "contexts"}) {
      for (const json& entry : last.value(list, json::array())) whole[list].push_back(entry);
    }
  }
  whole.erase("next_device");
  whole.erase("next_context");
  return whole;
}

bool start_daemon(const std::string& program, std::string& why) {
  DaemonLine::Failure failure;
  if (DaemonLine::connect(failure, why) != nullptr) return true;
  if (failure != DaemonLine::Failure::nobody) return false;
  char* const arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>("--autostart"), nullptr};
  pid_t child = 0;
  if (const int error = posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ);
      error != 0) {
    why = fmt::format("cannot start {}: {}", program, std::strerror(error));
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  // It has said on stderr what went wrong.
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  why = fmt::format("{} did not start", program);
  return false;
}

}  // namespace uroce::cli
