// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// COMMAND messages of role uverbs.
#pragma once

#include "tools/uroced/answers.h"
#include "tools/uroced/async_events.h"
#include "tools/uroced/connections.h"
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

class UverbsServer {
 public:
  UverbsServer(Registry& registry, Connections& connections, AsyncEvents& events, UverbsHost& host)
      : registry_(registry), answers_(registry, connections), events_(events), host_(host) {}

  void on_command(uint32_t connection, const Message& message);

 private:
  void execute(uint32_t connection, const Message& message, bool refused);
  void send_stored(uint32_t connection, const uroce_msg& request);

  Registry& registry_;
  Answers answers_;
  AsyncEvents& events_;
  UverbsHost& host_;
};

}  // namespace uroce::daemon
