// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What one client has asked and still gets. Bytes in, bytes out; memory is bounded whatever the client sends
// or leaves unread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "netlink/rdma/handlers.h"

namespace uroce::netlink {

class Conversation {
 public:
  Conversation(RdmaModel& model, uint32_t port) : model_(model), port_(port) {}

  // One datagram, any bytes. Answers of earlier ones may still wait.
  void on_datagram(std::span<const uint8_t> datagram, bool administrator);

  // Instead of answers to a request that somebody else was busy with.
  void fail(const nlmsghdr& request, int error, const std::string& why) {
    acknowledge(request, error, {why, 0});
  }

  // The next datagram to send, which stays until sent() takes it away; nullptr when there is nothing more to
  // say.
  const Bytes* next();
  void sent() { waiting_.pop_front(); }

 private:
  struct Dump {
    Bytes request_bytes;
    Request request;
    const Handler* handler;
    size_t position = 0;
  };

  void on_message(const nlmsghdr& message, bool administrator);
  int answer(const nlmsghdr& message, bool administrator, AttributeFault& fault, bool& acknowledge);
  int start_dump(const Request& request, const Handler& handler);
  void continue_dump();
  void acknowledge(const nlmsghdr& request, int error, const AttributeFault& fault);

  RdmaModel& model_;
  uint32_t port_;
  std::deque<Bytes> waiting_;
  std::unique_ptr<Dump> dump_;
  bool gave_up_ = false;  // too much waits: nothing is answered until the client has read all of it
};

}  // namespace uroce::netlink
