// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/hello.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tools/uroced/log.h"

namespace uroce::daemon {

void Hello::on_hello(uint32_t connection, const Message& message) {
  const ConnectionRecord& record = registry_.connection(connection);
  uroce_hello_reply told{};
  std::snprintf(told.version, sizeof told.version, "%s", UROCE_VERSION);
  told.pid = static_cast<uint32_t>(getpid());

  uroce_hello hello{};
  std::string why;
  int status = 0;
  Handout handout;
  if (message.payload.size() != sizeof hello) {
    status = EINVAL;
    why = fmt::format("HELLO has {} bytes, not {}", message.payload.size(), sizeof hello);
  } else {
    std::memcpy(&hello, message.payload.data(), sizeof hello);
  }
  if (status == 0 && record.uid != geteuid()) {
    status = turn_away(record, hello.role, why);
  } else if (status == 0) {
    ownership_.note_use();
    hello.version[sizeof hello.version - 1] = '\0';
    note_version(hello.version, record.pid);
    status = take_role(connection, hello, handout, why);
  }
  std::snprintf(told.text, sizeof told.text, "%s", why.c_str());
  if (status == 0) {
    const Facts facts = facts_();
    told.netlink_port = facts.netlink_port;
    std::snprintf(told.tree, sizeof told.tree, "%s", facts.tree.c_str());
  } else {
    spdlog::info("process {} is refused: {}", record.pid, why);
  }
  std::vector<int> descriptors;
  if (status == 0 && handout.grant.receive_socket >= 0)
    descriptors = {handout.grant.receive_socket, handout.grant.slot_page, handout.grant.device_page.get()};
  if (status == 0 && handout.channel_end) {
    told.channel = connection;
    descriptors = {handout.channel_end.get()};
  }
  connections_.reply(connection, message.header, status, std::as_bytes(std::span(&told, 1)), descriptors);
  if (status != 0 || hello.role == UROCE_ROLE_WORLD) connections_.close_after_reply(connection);
}

int Hello::turn_away(const ConnectionRecord& stranger, uint32_t role, std::string& why) {
  const bool observes = role == UROCE_ROLE_ADMIN;
  if ((observes || role == UROCE_ROLE_WORLD) && ownership_.is_no_use(!observes)) {
    why = fmt::format(
        "uroced in this network namespace belongs to uid {}, has no device, and makes way for uid {}",
        geteuid(), stranger.uid);
    return EAGAIN;
  }
  char text[sizeof uroce_hello_reply{}.text];
  std::snprintf(text, sizeof text, UROCE_FOREIGN_DAEMON_FORMAT, geteuid(), registry_.state().keeper_pid,
                stranger.uid);
  why = text;
  return EPERM;
}

void Hello::note_version(const char* version, uint32_t pid) {
  constexpr size_t kMostRemembered = 16;
  if (std::strcmp(version, UROCE_VERSION) == 0 || other_versions_.size() >= kMostRemembered) return;
  if (!other_versions_.insert(version).second) return;
  spdlog::warn(
      "process {} is of uroce {}, this daemon of {}: run `uroce stop` when it may go, then both are one", pid,
      version, UROCE_VERSION);
}

int Hello::take_role(uint32_t connection, const uroce_hello& hello, Handout& handout, std::string& why) {
  const ConnectionRecord& record = registry_.connection(connection);
  if (record.role != 0 && record.role != hello.role) {
    why = "a connection has one role";
    return EINVAL;
  }
  int error = 0;
  switch (hello.role) {
    case UROCE_ROLE_WORLD:
    case UROCE_ROLE_ADMIN: break;
    case UROCE_ROLE_UVERBS: error = open_device(connection, hello.arg, why); break;
    case UROCE_ROLE_BROKER:
      error = broker_.attach(connection, hello.arg, hello.cookie, handout.grant, why);
      break;
    case UROCE_ROLE_RDMA_CM: error = open_rdma_cm(connection, handout, why); break;
    default: why = fmt::format("there is no role {}", hello.role); return EINVAL;
  }
  if (error == 0) registry_.edit(record.role) = hello.role;
  return error;
}

int Hello::open_rdma_cm(uint32_t connection, Handout& handout, std::string& why) {
  // Also when it is said again, after the worker's restart: the client has not seen the first one.
  handout.channel_end = rdma_cm_.open_channel(connection, why);
  if (handout.channel_end) return 0;
  why = "cannot open an rdma_cm channel: " + why;
  return EMFILE;
}

int Hello::open_device(uint32_t connection, uint32_t minor, std::string& why) {
  const ConnectionRecord& record = registry_.connection(connection);
  // Said again after the worker's restart; the device may have gone since, which its commands will tell.
  if (record.role != 0) {
    if (registry_.device(record.device).uverbs_minor == minor) return 0;
    why = "a connection is one open file";
    return EINVAL;
  }
  const auto device = devices_.by_minor(minor);
  if (!device) {
    why = fmt::format("there is no device uverbs{}", minor);
    return ENODEV;
  }
  registry_.edit(record.device) = *device;
  return 0;
}

}  // namespace uroce::daemon
