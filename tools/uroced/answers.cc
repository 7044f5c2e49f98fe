// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/answers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kMostCrashes = 2;

}  // namespace

Answers::Request Answers::begin(uint32_t connection, const Message& message) {
  const ConnectionRecord& client = registry_.connection(connection);
  if (client.has_reply != 0 && client.seq == message.header.seq)
    return connections_.was_answered(connection, message.header.seq) ? Request::answered
                                                                     : Request::send_again;
  registry_.edit(registry_.state().in_flight_seq) = message.header.seq;
  registry_.edit(registry_.state().in_flight_connection) = connection;
  if (client.crashes < kMostCrashes) return Request::fresh;
  spdlog::error("a request of process {} has ended {} workers and is refused", client.pid, client.crashes);
  return Request::deadly;
}

void Answers::store(uint32_t connection, uint32_t seq, int status, std::span<const std::byte> reply) {
  ConnectionRecord& client = registry_.edit(registry_.connection(connection));
  const size_t length = std::min<size_t>(reply.size(), kStoredReplyBytes);
  client.has_reply = 1;
  client.seq = seq;
  client.status = status == 0 && length < reply.size() ? EIO : status;
  client.makes_async_pair = 0;
  client.reply_bytes = client.status == 0 || status != 0 ? static_cast<uint32_t>(length) : 0;
  if (client.reply_bytes != 0) std::memcpy(client.reply, reply.data(), length);
  client.crashes = 0;
}

void Answers::finish() {
  registry_.edit(registry_.state().in_flight_connection) = 0;
}

void Answers::send(uint32_t connection, const uroce_msg& request, std::span<const int> descriptors) {
  const ConnectionRecord& client = registry_.connection(connection);
  connections_.reply(connection, request, client.status,
                     {reinterpret_cast<const std::byte*>(client.reply), client.reply_bytes}, descriptors);
}

void Answers::refuse(uint32_t connection, const uroce_msg& request, int status, const std::string& sentence) {
  connections_.reply(connection, request, status, std::as_bytes(std::span(sentence)));
}

}  // namespace uroce::daemon
