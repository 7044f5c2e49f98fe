// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// COMMAND messages, each carried out exactly once: a client that does not know whether its request was heard
// sends it again with the same seq, and the answer to its last one is kept beside the state that it changed.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/uroced/connections.h"
#include "tools/uroced/registry.h"

namespace uroce::daemon {

class Answers {
 public:
  Answers(Registry& registry, Connections& connections) : registry_(registry), connections_(connections) {}

  enum class Request : uint8_t {
    fresh,      // to be carried out
    deadly,     // it has ended several workers: to be refused
    answered,   // nothing to do: the answer is on its way
    send_again  // answered by an earlier worker, then the answer may not have left
  };
  // From here until finish() the request is the one that a dying worker dies of.
  Request begin(uint32_t connection, const Message& message);

  // An answer longer than kStoredReplyBytes becomes EIO: no command has one. With another status than 0
  // `reply` is a sentence for a person, or empty; what is too long of it is cut off.
  void store(uint32_t connection, uint32_t seq, int status, std::span<const std::byte> reply);
  void finish();

  void send(uint32_t connection, const uroce_msg& request, std::span<const int> descriptors = {});
  // Instead of what is stored.
  void refuse(uint32_t connection, const uroce_msg& request, int status, const std::string& sentence);

 private:
  Registry& registry_;
  Connections& connections_;
};

}  // namespace uroce::daemon
