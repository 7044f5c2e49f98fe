// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The server over real netlink sockets, as clients behind the stand-in reach it.
#include "netlink/rdma/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "netlink/rdma/message_builder.h"
#include "tests/netlink/client.h"
#include "tests/netlink/fake_model.h"

namespace uroce::netlink {
namespace {

constexpr int kPatienceMs = 5'000;

class NetlinkClient {
 public:
  NetlinkClient() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK)) {
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~NetlinkClient() { close(fd_); }
  NetlinkClient(const NetlinkClient&) = delete;

  void send(const RdmaServer& server, std::span<const uint8_t> bytes) const {
    sockaddr_nl to{};
    to.nl_family = AF_NETLINK;
    to.nl_pid = server.port();
    EXPECT_EQ(sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(bytes.size()));
  }

  // The messages of the next datagram; none when nothing waits.
  std::vector<Message> receive() const {
    std::array<uint8_t, 4096> buffer;
    const ssize_t n = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return n <= 0 ? std::vector<Message>() : messages_in({buffer.data(), static_cast<size_t>(n)});
  }

  int fd() const { return fd_; }

 private:
  int fd_;
};

class RdmaServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    server_ = RdmaServer::open(model_, why, requests_);
    ASSERT_NE(server_, nullptr) << why;
  }

  // Serves until the client has something to read.
  bool serve_until_readable(const NetlinkClient& client) {
    for (;;) {
      pollfd waits[] = {{client.fd(), POLLIN, 0}, {server_->descriptor(), POLLIN, 0}};
      if (poll(waits, 2, kPatienceMs) <= 0) return false;
      if ((waits[0].revents & POLLIN) != 0) return true;
      server_->dispatch();
    }
  }

  // As by the death of the process: what it was about to say is lost.
  void replace_server() {
    const int socket = dup(server_->socket());
    server_.reset();
    std::string why;
    server_ = RdmaServer::adopt(model_, socket, why, requests_);
    ASSERT_NE(server_, nullptr) << why;
  }
  size_t open_requests() const {
    return static_cast<size_t>(
        std::count_if(requests_.begin(), requests_.end(), [](const OpenRequest& r) { return r.port != 0; }));
  }

  FakeModel model_;
  std::array<OpenRequest, kMostOpenRequests> requests_{};
  std::unique_ptr<RdmaServer> server_;
};

TEST_F(RdmaServerTest, answers_over_a_socket) {
  EXPECT_NE(server_->port(), 0u);
  NetlinkClient client;
  client.send(*server_, RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).bytes());
  ASSERT_TRUE(serve_until_readable(client));
  const auto messages = client.receive();
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].attributes().text(RDMA_NLDEV_ATTR_DEV_NAME), "ur0");
  EXPECT_TRUE(messages[2].is_done());
}

TEST_F(RdmaServerTest, root_may_change_things) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  const auto request = RequestBytes(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, 9);
  NetlinkClient client;
  client.send(*server_, request.bytes());
  ASSERT_TRUE(serve_until_readable(client));
  EXPECT_EQ(client.receive().at(0).error(), 0);
  EXPECT_EQ(model_.told_, "delete 9");
}

TEST_F(RdmaServerTest, other_users_may_look_but_not_change) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(9);
    NetlinkClient client;
    client.send(*server_,
                RequestBytes(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, 9).bytes());
    client.send(*server_, RequestBytes(RDMA_NLDEV_CMD_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, 9).bytes());
    pollfd waits{client.fd(), POLLIN, 0};
    if (poll(&waits, 1, kPatienceMs) != 1) _exit(8);
    const auto refused = client.receive();
    if (poll(&waits, 1, kPatienceMs) != 1) _exit(7);
    const auto told = client.receive();
    _exit(refused.at(0).error() == EPERM && !told.at(0).is_ack() ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    pollfd waits{server_->descriptor(), POLLIN, 0};
    if (poll(&waits, 1, 100) > 0) server_->dispatch();
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(model_.told_, "");
}

TEST_F(RdmaServerTest, dump_larger_than_the_clients_buffer_arrives_whole) {
  for (uint32_t i = 0; i < 30'000; ++i) model_.mrs_.push_back({100 + i, 1, 11, 100, 0, 1});
  NetlinkClient client;
  client.send(*server_,
              RequestBytes(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, 3).bytes());
  size_t seen = 0;
  for (bool done = false; !done;) {
    ASSERT_TRUE(serve_until_readable(client));
    for (const Message& message : client.receive()) {
      done = message.is_done();
      if (!done) {
        seen += message.attributes().table(RDMA_NLDEV_ATTR_RES_MR).all(RDMA_NLDEV_ATTR_RES_MR_ENTRY).size();
      }
    }
  }
  EXPECT_EQ(seen, 30'001u);
}

TEST_F(RdmaServerTest, client_that_does_not_read_keeps_nobody_waiting) {
  model_.mrs_.assign(100'000, {31, 1, 11, 100, 0, 1});
  NetlinkClient lazy, eager;
  lazy.send(*server_,
            RequestBytes(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, 3).bytes());
  server_->dispatch();
  eager.send(*server_, RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).bytes());
  ASSERT_TRUE(serve_until_readable(eager));
  EXPECT_EQ(eager.receive().size(), 3u);
}

TEST_F(RdmaServerTest, client_that_goes_in_mid_dump_is_forgotten) {
  model_.mrs_.assign(100'000, {31, 1, 11, 100, 0, 1});
  {
    NetlinkClient client;
    client.send(
        *server_,
        RequestBytes(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP).u32(RDMA_NLDEV_ATTR_DEV_INDEX, 3).bytes());
    server_->dispatch();
  }
  pollfd waits{server_->descriptor(), POLLIN, 0};
  ASSERT_EQ(poll(&waits, 1, kPatienceMs), 1) << "it looks again";
  server_->dispatch();
  EXPECT_EQ(poll(&waits, 1, 300), 0) << "and then no more";
}

TEST_F(RdmaServerTest, answered_requests_are_not_open) {
  NetlinkClient client;
  for (int i = 0; i < 3; ++i) {
    client.send(*server_, RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).bytes());
    ASSERT_TRUE(serve_until_readable(client));
    client.receive();
  }
  EXPECT_EQ(open_requests(), 0u);
}

TEST_F(RdmaServerTest, request_under_way_ends_when_the_server_is_replaced) {
  model_.mrs_.assign(100'000, {31, 1, 11, 100, 0, 1});
  NetlinkClient client;
  client.send(
      *server_,
      RequestBytes(RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP, 4711).u32(RDMA_NLDEV_ATTR_DEV_INDEX, 3).bytes());
  server_->dispatch();
  ASSERT_EQ(open_requests(), 1u);
  replace_server();
  for (int error = 0; error == 0;) {
    ASSERT_TRUE(serve_until_readable(client)) << "it would wait for ever";
    for (const Message& message : client.receive()) {
      if (!message.is_ack()) continue;
      error = message.error();
      EXPECT_EQ(error, EIO);
      EXPECT_EQ(message.header.nlmsg_seq, 4711u);
      EXPECT_NE(message.explanation().find("restarted"), std::string::npos);
    }
  }
  EXPECT_EQ(open_requests(), 0u);
  // One that the earlier server had not taken yet is answered by the next.
  client.send(*server_, RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).bytes());
  replace_server();
  ASSERT_TRUE(serve_until_readable(client));
  EXPECT_EQ(client.receive().size(), 3u);
}

TEST_F(RdmaServerTest, request_longer_than_any_is_dropped) {
  NetlinkClient client;
  client.send(*server_, Bytes(40'000, 0));
  client.send(*server_, RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).bytes());
  ASSERT_TRUE(serve_until_readable(client));
  EXPECT_EQ(client.receive().size(), 3u);
}

}  // namespace
}  // namespace uroce::netlink
