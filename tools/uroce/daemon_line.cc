// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/daemon_line.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/uroced/listener.h"
#include "tools/uroced/message.h"

namespace uroce::cli {

namespace {

using nlohmann::json;

constexpr int kPatienceMs = 10'000;
constexpr int kMostPages = 10'000;

}  // namespace

std::unique_ptr<DaemonLine> DaemonLine::connect(Failure& failure, std::string& why) {
  auto line = connect_as(geteuid(), failure, why);
  if (line == nullptr && failure == Failure::nobody && geteuid() != 0) line = connect_as(0, failure, why);
  return line;
}

std::unique_ptr<DaemonLine> DaemonLine::connect_as(uid_t owner, Failure& failure, std::string& why) {
  std::unique_ptr<DaemonLine> line(new DaemonLine(daemon::connect_to_daemon(owner)));
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
        "uroced does not answer in a way this program understands (another version?); end it: kill the "
        "process `pgrep uroced` "
        "shows";
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

bool DaemonLine::exchange(uint16_t type, std::span<const std::byte> payload, int32_t& status,
                          std::vector<std::byte>& reply) {
  const uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, type, ++seq_, 0};
  if (daemon::send_message(fd_.get(), header, payload, {}) != daemon::Sent::yes) return false;
  for (;;) {
    pollfd waits{fd_.get(), POLLIN, 0};
    const int ready = poll(&waits, 1, kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    daemon::Message message;
    if (ready <= 0) return false;
    switch (daemon::receive_message(fd_.get(), message)) {
      case daemon::Receive::nothing: continue;
      case daemon::Receive::ended:
      case daemon::Receive::garbage: return false;
      case daemon::Receive::message: break;
    }
    if (message.header.type == UROCE_MSG_RESTARTED) {
      if (daemon::send_message(fd_.get(), header, payload, {}) != daemon::Sent::yes) return false;
    } else if (message.header.type == type && message.header.seq == seq_) {
      status = message.header.status;
      reply = std::move(message.payload);
      return true;
    }
  }
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
