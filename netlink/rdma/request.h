// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One request and what comes back for it, as a handler sees them.
#pragma once

#include <optional>
#include <string>

#include "netlink/rdma/message_builder.h"
#include "netlink/rdma/model.h"
#include "netlink/rdma/policy.h"

namespace uroce::netlink {

struct Request {
  const nlmsghdr* header = nullptr;
  Attributes attributes;
  uint32_t port = 0;           // the client's
  bool administrator = false;  // may change things, and sees keys

  uint16_t operation() const { return RDMA_NL_GET_OP(header->nlmsg_type); }
};

// The answer to a request that is not a dump: one message, or only the acknowledgement.
class Answer {
 public:
  explicit Answer(const Request& request) : request_(request) {}

  MessageBuilder& start(rdma_nldev_command command) {
    builder_.emplace().start(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), 0, request_.header->nlmsg_seq,
                             request_.port);
    return *builder_;
  }
  std::optional<MessageBuilder>& message() { return builder_; }

  std::string text;  // for the extended acknowledgement

 private:
  const Request& request_;
  std::optional<MessageBuilder> builder_;
};

// The device a request names by its index; nullopt also when it names none.
std::optional<DeviceView> find_device(const RdmaModel& model, const Request& request);

constexpr uint32_t kPort = 1;  // every device has this one

// A request may leave the port out; when it names one it must exist.
inline bool names_wrong_port(const Request& request) {
  return request.attributes.u32(RDMA_NLDEV_ATTR_PORT_INDEX).value_or(kPort) != kPort;
}

void put_device_handle(MessageBuilder& out, const DeviceView& device);

}  // namespace uroce::netlink
