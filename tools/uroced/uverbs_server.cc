// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_server.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kMostCrashes = 2;

struct Outcome {
  int error = 0;
  bool makes_async_pair = false;
  std::vector<std::byte> reply;
};

// As long as a stored reply may be.
std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(),
          bytes.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(bytes.size(), kStoredReplyBytes))};
}

}  // namespace

void UverbsServer::on_command(uint32_t connection, const Message& message) {
  const ConnectionRecord& record = registry_.connection(connection);
  if (record.has_reply != 0 && record.seq == message.header.seq) {
    // Answered before. By an earlier worker, then the answer may not have left; by this one, then it is on
    // its way.
    if (!connections_.was_answered(connection, message.header.seq)) send_stored(connection, message.header);
    return;
  }
  execute(connection, message);
  send_stored(connection, message.header);
}

void UverbsServer::execute(uint32_t connection, const Message& message) {
  ConnectionRecord& record = registry_.edit(registry_.connection(connection));
  registry_.edit(registry_.state().in_flight_seq) = message.header.seq;
  registry_.edit(registry_.state().in_flight_connection) = connection;

  Outcome outcome;
  std::vector<std::byte> sentence;
  Command command;
  registry_.begin();
  if (record.crashes >= kMostCrashes) {
    spdlog::error("a request of process {} has ended {} workers and is refused", record.pid, record.crashes);
    outcome.error = EIO;
  } else {
    outcome.error = parse_command(message.payload, uverbs_shapes(), command);
  }
  if (outcome.error == 0) {
    CommandReply reply(command);
    UverbsCall call{registry_,           host_,       connection,
                    record.device,       record.slot, static_cast<pid_t>(record.pid),
                    message.descriptors, command,     reply};
    try {
      outcome.error = execute_uverbs(call);
    } catch (const std::bad_alloc&) {
      outcome.error = ENOMEM;
    }
    outcome.reply = reply.bytes();
    sentence = bytes_of(call.why);
    outcome.makes_async_pair = call.makes_async_pair;
  }
  if (outcome.error == 0 && outcome.reply.size() > kStoredReplyBytes)
    outcome.error = EIO;  // no command has such a long one
  if (outcome.error != 0) {
    registry_.roll_back();
    registry_.begin();
    outcome.reply = sentence;
    outcome.makes_async_pair = false;
  }
  ConnectionRecord& answered = registry_.edit(registry_.connection(connection));
  answered.has_reply = 1;
  answered.seq = message.header.seq;
  answered.status = outcome.error;
  answered.makes_async_pair = outcome.makes_async_pair ? 1 : 0;
  answered.reply_bytes = static_cast<uint32_t>(outcome.reply.size());
  if (!outcome.reply.empty()) std::memcpy(answered.reply, outcome.reply.data(), outcome.reply.size());
  answered.crashes = 0;
  registry_.commit();
  registry_.edit(registry_.state().in_flight_connection) = 0;
}

void UverbsServer::send_stored(uint32_t connection, const uroce_msg& request) {
  const ConnectionRecord& record = registry_.connection(connection);
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(record.reply),
                                         record.reply_bytes);
  if (record.makes_async_pair == 0) return connections_.reply(connection, request, record.status, bytes);
  // Also when it is repeated: the client has not seen the first pair.
  AsyncEvents::Pair pair;
  if (!events_.make_pair(record.slot, pair)) {
    spdlog::warn("process {} gets no asynchronous events: {}", record.pid, std::strerror(errno));
    const std::string text = "uroced has no descriptor left for asynchronous events";
    return connections_.reply(connection, request, ENOMEM, std::as_bytes(std::span(text)));
  }
  const int ends[] = {pair.program_end.get(), pair.far_end.get()};
  connections_.reply(connection, request, record.status, bytes, ends);
}

}  // namespace uroce::daemon
