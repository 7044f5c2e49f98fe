// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A socket to the kernel's rtnetlink for one request at a time. One thread; the kernel answers before send
// returns, so nothing here waits.
#pragma once

#include <netlink/msg.h>
#include <netlink/socket.h>

#include <functional>
#include <memory>
#include <string>

namespace uroce::netlink {

struct FreeMessage {
  void operator()(nl_msg* message) const { nlmsg_free(message); }
};
using Message = std::unique_ptr<nl_msg, FreeMessage>;

class KernelLine {
 public:
  static std::unique_ptr<KernelLine> open(std::string& why);
  ~KernelLine();
  KernelLine(const KernelLine&) = delete;

  // Sends the request and shows each answer to `on_answer`. Returns 0 or the kernel's errno, positive.
  int ask(nl_msg& request, const std::function<void(nlmsghdr*)>& on_answer);

  nl_sock* socket() { return socket_; }

 private:
  explicit KernelLine(nl_sock* socket) : socket_(socket) {}

  nl_sock* socket_;
};

}  // namespace uroce::netlink
