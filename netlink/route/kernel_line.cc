// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/route/kernel_line.h"

#include <netlink/errno.h>
#include <netlink/netlink.h>

#include <cerrno>

namespace uroce::netlink {

namespace {

struct Conversation {
  const std::function<void(nlmsghdr*)>& on_answer;
  int error = 0;
};

int take_answer(nl_msg* message, void* conversation) {
  static_cast<Conversation*>(conversation)->on_answer(nlmsg_hdr(message));
  return NL_OK;
}

// libnl's own error codes are coarser than errno.
int take_error(sockaddr_nl*, nlmsgerr* told, void* conversation) {
  static_cast<Conversation*>(conversation)->error = -told->error;
  return NL_STOP;
}

}  // namespace

std::unique_ptr<KernelLine> KernelLine::open(std::string& why) {
  nl_sock* socket = nl_socket_alloc();
  if (socket == nullptr) {
    why = "no memory for a netlink socket";
    return nullptr;
  }
  if (const int error = nl_connect(socket, NETLINK_ROUTE); error < 0) {
    why = std::string("cannot open rtnetlink: ") + nl_geterror(error);
    nl_socket_free(socket);
    return nullptr;
  }
  return std::unique_ptr<KernelLine>(new KernelLine(socket));
}

KernelLine::~KernelLine() {
  nl_socket_free(socket_);
}

int KernelLine::ask(nl_msg& request, const std::function<void(nlmsghdr*)>& on_answer) {
  if (nl_send_auto(socket_, &request) < 0) return EIO;
  Conversation conversation{on_answer};
  nl_cb* callbacks = nl_cb_alloc(NL_CB_DEFAULT);
  if (callbacks == nullptr) return ENOMEM;
  bool over = false;
  const auto end = [](nl_msg*, void* flag) -> int {
    *static_cast<bool*>(flag) = true;
    return NL_STOP;
  };
  nl_cb_set(callbacks, NL_CB_VALID, NL_CB_CUSTOM, take_answer, &conversation);
  nl_cb_set(callbacks, NL_CB_ACK, NL_CB_CUSTOM, end, &over);
  nl_cb_set(callbacks, NL_CB_FINISH, NL_CB_CUSTOM, end, &over);
  nl_cb_err(callbacks, NL_CB_CUSTOM, take_error, &conversation);
  int status = 0;
  while (!over && conversation.error == 0 && status >= 0) status = nl_recvmsgs(socket_, callbacks);
  nl_cb_put(callbacks);
  if (conversation.error != 0) return conversation.error;
  return over ? 0 : EIO;
}

}  // namespace uroce::netlink
