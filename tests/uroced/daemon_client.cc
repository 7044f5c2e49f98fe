// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/uroced/daemon_client.h"

#include <poll.h>
#include <sys/socket.h>

#include "tools/uroced/listener.h"

namespace uroce::daemon {

bool DaemonClient::connect(uid_t uid) {
  fd_ = connect_to_daemon(uid);
  return static_cast<bool>(fd_);
}

bool DaemonClient::send(uint16_t type, uint32_t seq, std::span<const std::byte> payload) {
  const uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, type, seq, 0};
  return send_message(fd_.get(), header, payload, {}) == Sent::yes;
}

std::optional<Message> DaemonClient::receive(int timeout_ms) {
  pollfd waits{fd_.get(), POLLIN, 0};
  if (poll(&waits, 1, timeout_ms) <= 0) return std::nullopt;
  Message message;
  if (receive_message(fd_.get(), message) != Receive::message) return std::nullopt;
  return message;
}

DaemonClient::Answer DaemonClient::request(uint16_t type, std::span<const std::byte> payload) {
  const uint32_t seq = ++seq_;
  if (!send(type, seq, payload)) return {};
  while (auto message = receive()) {
    switch (message->header.type) {
      case UROCE_MSG_RESTARTED:
        restarts_++;
        if (!send(type, seq, payload)) return {};
        break;
      case UROCE_MSG_GONE: gone_ = true; break;
      default:
        if (message->header.seq != seq) break;
        return {message->header.status, std::move(message->payload), std::move(message->descriptors)};
    }
  }
  return {};
}

DaemonClient::HelloAnswer DaemonClient::hello(uint32_t role, uint32_t arg, uint64_t cookie) {
  uroce_hello body{};
  body.role = role;
  body.arg = arg;
  body.cookie = cookie;
  std::snprintf(body.version, sizeof body.version, "test");
  Answer answer = request(UROCE_MSG_HELLO, std::as_bytes(std::span(&body, 1)));
  HelloAnswer told;
  told.status = answer.status;
  told.descriptors = std::move(answer.descriptors);
  if (answer.payload.size() == sizeof told.reply)
    std::memcpy(&told.reply, answer.payload.data(), sizeof told.reply);
  return told;
}

nlohmann::json DaemonClient::admin(const nlohmann::json& body) {
  const std::string text = body.dump();
  const Answer answer = request(UROCE_MSG_ADMIN, std::as_bytes(std::span(text)));
  const std::string_view told(reinterpret_cast<const char*>(answer.payload.data()), answer.payload.size());
  const auto parsed = nlohmann::json::parse(told, nullptr, false);
  return parsed.is_object() ? parsed : nlohmann::json{{"ok", false}, {"error", "no answer"}};
}

std::vector<std::byte> DaemonClient::legacy(uint32_t number, std::span<const std::byte> body, size_t room) {
  const ib_uverbs_cmd_hdr header{number, static_cast<uint16_t>((sizeof(ib_uverbs_cmd_hdr) + body.size()) / 4),
                                 static_cast<uint16_t>(room / 4)};
  std::vector<std::byte> written(sizeof header + body.size());
  std::memcpy(written.data(), &header, sizeof header);
  std::memcpy(written.data() + sizeof header, body.data(), body.size());
  return written;
}

bool DaemonClient::open_device(uint32_t minor) {
  if (hello(UROCE_ROLE_UVERBS, minor).status != 0) return false;
  ib_uverbs_get_context_resp response{};
  if (command(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, &response, &context_) != 0)
    return false;
  if (last_.descriptors.size() != 2) return false;
  async_ = std::move(last_.descriptors[0]);
  far_end_ = std::move(last_.descriptors[1]);
  return true;
}

uint32_t DaemonClient::next_event(int timeout_ms) {
  pollfd waits{async_.get(), POLLIN, 0};
  ib_uverbs_async_event_desc event{};
  if (poll(&waits, 1, timeout_ms) <= 0 || read(async_.get(), &event, sizeof event) != sizeof event) return 0;
  return event.event_type;
}

uint32_t DaemonClient::alloc_pd() {
  ib_uverbs_alloc_pd_resp response{};
  return command(IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, &response) == 0 ? response.pd_handle : 0;
}

uint32_t DaemonClient::create_cq(uint32_t entries) {
  ib_uverbs_create_cq request{};
  request.cqe = entries;
  request.comp_channel = -1;
  ib_uverbs_create_cq_resp response{};
  return command(IB_USER_VERBS_CMD_CREATE_CQ, request, &response) == 0 ? response.cq_handle : 0;
}

ib_uverbs_create_qp_resp DaemonClient::create_qp(uint32_t pd, uint32_t cq) {
  ib_uverbs_create_qp request{};
  request.pd_handle = pd;
  request.send_cq_handle = request.recv_cq_handle = cq;
  request.max_send_wr = request.max_recv_wr = request.max_send_sge = request.max_recv_sge = 1;
  request.qp_type = 2;
  ib_uverbs_create_qp_resp response{};
  command(IB_USER_VERBS_CMD_CREATE_QP, request, &response);
  return response;
}

}  // namespace uroce::daemon
