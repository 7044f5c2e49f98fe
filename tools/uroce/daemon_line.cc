// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/daemon_line.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "tools/uroce/processes.h"
#include "tools/uroced/process_scan.h"

namespace uroce::cli {

namespace {

using nlohmann::json;

constexpr int kPatienceMs = 5'000, kLookMs = 200;
constexpr int kMostPages = 10'000;

std::string own_name(uid_t uid) {
  char name[32];
  std::snprintf(name, sizeof name, UROCE_DAEMON_NAME_FORMAT, uid);
  return name;
}

// errno tells why not: EAGAIN when it does not accept.
Fd connect_to_daemon(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const timeval patience{kPatienceMs / 1000, 0};
  if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return fd;
  const int error = errno;
  fd.close_now();
  errno = error;
  return fd;
}

// Empty, or what is to be done about a daemon that cannot answer.
std::string stopped_text(pid_t keeper) {
  const auto stopped = stopped_process(keeper);
  if (!stopped) return {};
  return fmt::format(
      "uroced does not answer: its process {} is stopped; let it go on (kill -CONT {}), or end it (kill -9 "
      "{})",
      *stopped, *stopped,
      keeper == *stopped ? fmt::format("{}", keeper) : fmt::format("{} {}", keeper, *stopped));
}

void judge_silence(int error, DaemonLine::Failure& failure, std::string& why) {
  if (error == ECONNREFUSED) {
    failure = DaemonLine::Failure::nobody;
    why =
        "no uroced runs in this network namespace for this user; it starts by itself on first use, for "
        "example by `uroce run -- rdma link`";
  } else if (error == EAGAIN) {
    failure = DaemonLine::Failure::stranger;  // or our own: that shows when it accepts
    why = "uroced does not accept connections (is it stopped?): see `pgrep uroced`";
  } else {
    failure = DaemonLine::Failure::broken;
    why = fmt::format("cannot reach uroced: {}", std::strerror(error));
  }
}

}  // namespace

std::unique_ptr<DaemonLine> DaemonLine::connect(Failure& failure, std::string& why) {
  std::vector<std::string> names{own_name(geteuid())};
  if (geteuid() != 0) names.push_back(own_name(0));
  names.push_back(UROCE_DAEMON_COMMON_NAME);
  // A stranger's process with one of our names does not hide the daemon of the namespace.
  std::string squatted;
  for (const std::string& name : names) {
    auto line = connect_to(name, failure, why);
    if (line != nullptr || (failure != Failure::nobody && failure != Failure::stranger)) return line;
    if (failure == Failure::stranger && name == names.front()) squatted = why;
  }
  if (!squatted.empty()) {
    failure = Failure::stranger;
    why = squatted;
  }
  return nullptr;
}

std::unique_ptr<DaemonLine> DaemonLine::connect_to(const std::string& name, Failure& failure,
                                                   std::string& why) {
  std::unique_ptr<DaemonLine> line(new DaemonLine(connect_to_daemon(name)));
  socklen_t bytes = sizeof line->owner_;
  if (!line->fd_) {
    judge_silence(errno, failure, why);
    return nullptr;
  }
  if (getsockopt(line->fd_.get(), SOL_SOCKET, SO_PEERCRED, &line->owner_, &bytes) != 0 ||
      (line->is_stranger() && name != UROCE_DAEMON_COMMON_NAME)) {
    failure = Failure::stranger;
    why = fmt::format(
        "process {} of uid {} has taken the name @{} in this network namespace, and it is neither "
        "root's nor yours; end "
        "that process",
        line->owner_.pid, line->owner_.uid, name);
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
  const bool answered = exchange(UROCE_MSG_HELLO, std::as_bytes(std::span(&body, 1)), status, reply);
  if (is_stranger()) {
    judge_refusal(answered ? status : EPERM, failure, why);
    return false;
  }
  if (!answered || reply.size() != sizeof told) {
    why = !trouble_.empty()
              ? trouble_
              : "uroced does not answer in a way this program understands (another version?); end it: kill "
                "the process `pgrep uroced` shows";
    return false;
  }
  std::memcpy(&told, reply.data(), sizeof told);
  told.version[sizeof told.version - 1] = '\0';
  version_ = told.version;
  pid_ = static_cast<pid_t>(told.pid);
  if (status != 0) {
    judge_refusal(status, failure, why);
    return false;
  }
  failure = Failure::none;
  return true;
}

// What a stranger says of himself is not repeated.
void DaemonLine::judge_refusal(int32_t status, Failure& failure, std::string& why) const {
  failure = status == EAGAIN ? Failure::nobody : Failure::refused;
  if (status == EAGAIN) {
    why = fmt::format(
        "no uroced runs in this network namespace for this user; that of uid {} (process {}) has no device "
        "and "
        "makes way when one is needed",
        owner_.uid, owner_.pid);
    return;
  }
  char text[512];
  std::snprintf(text, sizeof text, UROCE_FOREIGN_DAEMON_FORMAT, owner_.uid, static_cast<unsigned>(owner_.pid),
                geteuid());
  why = text;
  if (owner_.uid == UROCE_OVERFLOW_UID && !daemon::users_are_known()) why += UROCE_OVERFLOW_NOTE;
}

// The next message; nullopt when the daemon is gone, silent for too long, or speaks something else.
std::optional<DaemonLine::Received> DaemonLine::next_message() {
  std::vector<std::byte> buffer(UROCE_MSG_MAX);
  for (int waited_ms = 0;;) {
    pollfd waits{fd_.get(), POLLIN, 0};
    const int ready = poll(&waits, 1, kLookMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return std::nullopt;
    if (ready == 0) {
      trouble_ = stopped_text(owner_.pid);
      if (!trouble_.empty()) return std::nullopt;
      if ((waited_ms += kLookMs) < kPatienceMs) continue;
      trouble_ = fmt::format("uroced (process {}) has not answered for {} s", owner_.pid, kPatienceMs / 1000);
      return std::nullopt;
    }
    const ssize_t n = recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
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
  while (auto message = next_message()) {
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
    return {{"ok", false}, {"error", trouble_.empty() ? "uroced has stopped answering" : trouble_}};
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
