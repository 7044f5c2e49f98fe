// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace uroce::daemon {
namespace {

class MessageTest : public ::testing::Test {
 protected:
  MessageTest() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
  Fd a, b;
  const uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, UROCE_MSG_COMMAND, 9, 0};
};

TEST_F(MessageTest, carries_payload_and_descriptors) {
  const std::byte payload[] = {std::byte{1}, std::byte{2}};
  const int descriptors[] = {0, 1};
  ASSERT_EQ(send_message(a.get(), header, payload, descriptors), Sent::yes);
  Message message;
  ASSERT_EQ(receive_message(b.get(), message), Receive::message);
  EXPECT_EQ(message.header.seq, 9u);
  EXPECT_EQ(message.payload.size(), 2u);
  EXPECT_EQ(message.descriptors.size(), 2u);
  EXPECT_EQ(receive_message(b.get(), message), Receive::nothing);
}

TEST_F(MessageTest, garbage_is_told_apart_and_its_descriptors_do_not_stay_open) {
  const char text[] = "hello";
  send(a.get(), text, sizeof text, 0);
  Message message;
  EXPECT_EQ(receive_message(b.get(), message), Receive::garbage);
  uroce_msg other = header;
  other.version = 99;
  const int descriptors[] = {0};
  send_message(a.get(), other, {}, descriptors);
  Message second;
  EXPECT_EQ(receive_message(b.get(), second), Receive::garbage);
  EXPECT_EQ(second.descriptors.size(), 1u);
}

TEST_F(MessageTest, too_long_is_garbage) {
  std::vector<std::byte> big(UROCE_MSG_MAX);
  ASSERT_EQ(send_message(a.get(), header, big, {}), Sent::yes);
  Message message;
  EXPECT_EQ(receive_message(b.get(), message), Receive::garbage);
}

TEST_F(MessageTest, end_and_full_queue) {
  while (send_message(a.get(), header, {}, {}) == Sent::yes) {
  }
  EXPECT_EQ(send_message(a.get(), header, {}, {}), Sent::would_block);
  b.reset();
  EXPECT_EQ(send_message(a.get(), header, {}, {}), Sent::no);
  Message message;
  EXPECT_EQ(receive_message(a.get(), message), Receive::ended);
}

}  // namespace
}  // namespace uroce::daemon
