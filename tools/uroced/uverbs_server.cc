// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_server.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

struct Outcome {
  int error = 0;
  bool makes_async_pair = false;
  std::vector<std::byte> reply;
  std::string sentence;  // why there is an error
};

}  // namespace

void UverbsServer::on_command(uint32_t connection, const Message& message) {
  const Answers::Request request = answers_.begin(connection, message);
  if (request == Answers::Request::answered) return;
  if (request != Answers::Request::send_again) {
    execute(connection, message, request == Answers::Request::deadly);
    answers_.finish();
  }
  send_stored(connection, message.header);
}

void UverbsServer::execute(uint32_t connection, const Message& message, bool refused) {
  const ConnectionRecord& record = registry_.connection(connection);
  Outcome outcome;
  Command command;
  registry_.begin();
  outcome.error = refused ? EIO : parse_command(message.payload, uverbs_shapes(), command);
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
    outcome.sentence = call.why;
    outcome.makes_async_pair = call.makes_async_pair;
  }
  if (outcome.error == 0 && outcome.reply.size() > kStoredReplyBytes) outcome.error = EIO;
  if (outcome.error != 0) {
    registry_.roll_back();
    registry_.begin();
  }
  answers_.store(connection, message.header.seq, outcome.error,
                 outcome.error == 0 ? std::span<const std::byte>(outcome.reply)
                                    : std::as_bytes(std::span(outcome.sentence)));
  if (outcome.error == 0) registry_.edit(record.makes_async_pair) = outcome.makes_async_pair ? 1 : 0;
  registry_.commit();
}

void UverbsServer::send_stored(uint32_t connection, const uroce_msg& request) {
  const ConnectionRecord& record = registry_.connection(connection);
  if (record.makes_async_pair == 0) return answers_.send(connection, request);
  // Also when it is repeated: the client has not seen the first pair.
  AsyncEvents::Pair pair;
  if (!events_.make_pair(record.slot, pair)) {
    spdlog::warn("process {} gets no asynchronous events: {}", record.pid, std::strerror(errno));
    return answers_.refuse(connection, request, ENOMEM,
                           "uroced has no descriptor left for asynchronous events");
  }
  const int ends[] = {pair.program_end.get(), pair.far_end.get()};
  answers_.send(connection, request, ends);
}

}  // namespace uroce::daemon
