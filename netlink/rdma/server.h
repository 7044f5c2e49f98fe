// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The RDMA netlink family, served by a process: over NETLINK_USERSOCK, because only the kernel can serve
// NETLINK_RDMA. Clients' sockets are redirected by the stand-in. One thread; never waits for a client.
#pragma once

#include <linux/netlink.h>

#include <memory>
#include <span>
#include <string>

#include "netlink/rdma/model.h"

namespace uroce::netlink {

// A request that is being answered: the newest of its client. In memory that outlives the server, all zero at
// first, it lets the next one tell the client that no answer will come.
struct OpenRequest {
  uint32_t port;  // of the client; 0: a free entry
  nlmsghdr request;
};
constexpr size_t kMostOpenRequests = 256;

class RdmaServer {
 public:
  // nullptr with `why`. The model must outlive the server.
  static std::unique_ptr<RdmaServer> open(RdmaModel& model, std::string& why,
                                          std::span<OpenRequest> requests = {});
  // The same on the socket() of an earlier server, whose port clients know; takes the descriptor over. What
  // `requests` has of that server ends with EIO.
  static std::unique_ptr<RdmaServer> adopt(RdmaModel& model, int socket, std::string& why,
                                           std::span<OpenRequest> requests = {});
  virtual ~RdmaServer() = default;

  virtual int descriptor() const = 0;  // readable: call dispatch()
  virtual uint32_t port() const = 0;   // the netlink port id that clients send to
  virtual int socket() const = 0;      // for adopt(); the server's
  // Answers what is pending, up to a bound. A client that does not read its answers is given up after a
  // while.
  virtual void dispatch() = 0;
};

}  // namespace uroce::netlink
