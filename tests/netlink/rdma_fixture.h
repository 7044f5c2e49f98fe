// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One administrator who talks to the handlers over a fake daemon.
#pragma once

#include <gtest/gtest.h>

#include "netlink/rdma/conversation.h"
#include "tests/netlink/client.h"
#include "tests/netlink/fake_model.h"

namespace uroce::netlink {

constexpr uint32_t kClientPort = 4321;
constexpr uint32_t kFirst = 3, kSecond = 9, kNobody = 4;  // device indices of the fake daemon

class RdmaCommands : public ::testing::Test {
 protected:
  // Every message that comes back until nothing more does.
  std::vector<Message> exchange(const RequestBytes& request) {
    conversation_.on_datagram(request.bytes(), administrator_);
    std::vector<Message> out;
    while (const Bytes* datagram = conversation_.next()) {
      EXPECT_LE(datagram->size(), 4096u) << "stock clients read a page";
      for (Message& message : messages_in(*datagram)) {
        EXPECT_EQ(message.header.nlmsg_pid, kClientPort);
        EXPECT_EQ(message.header.nlmsg_seq, 77u);
        out.push_back(std::move(message));
      }
      conversation_.sent();
    }
    return out;
  }

  // The one data message of a request that succeeds.
  const Message& answer(const RequestBytes& request) {
    messages_ = exchange(request);
    if (messages_.size() != 1 || messages_[0].is_ack()) {
      ADD_FAILURE() << messages_.size() << " messages, error "
                    << (messages_.empty() ? 0 : messages_[0].error());
      messages_.assign(1, {});
    }
    return messages_[0];
  }

  // The errno that a request gets, 0 for success; its text is left in explanation_.
  int error(const RequestBytes& request) {
    messages_ = exchange(request);
    explanation_.clear();
    for (const Message& message : messages_) {
      if (!message.is_ack() && !message.is_done()) continue;
      if (message.is_ack()) explanation_ = message.explanation();
      return message.error();
    }
    return 0;
  }

  // The data messages of a dump, which ends with NLMSG_DONE 0.
  const std::vector<Message>& dump(const RequestBytes& request) {
    messages_ = exchange(request);
    if (messages_.empty() || !messages_.back().is_done()) {
      ADD_FAILURE() << "the dump does not end";
      return messages_;
    }
    EXPECT_EQ(messages_.back().error(), 0);
    for (const Message& message : messages_) EXPECT_NE(message.header.nlmsg_flags & NLM_F_MULTI, 0);
    messages_.pop_back();
    return messages_;
  }

  FakeModel model_;
  Conversation conversation_{model_, kClientPort};
  bool administrator_ = true;
  std::vector<Message> messages_;
  std::string explanation_;
};

}  // namespace uroce::netlink
