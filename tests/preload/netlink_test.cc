// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/preload/fake_daemon.h"

namespace uroce::preload_test {
namespace {

constexpr int kRdma = 20;

struct Hail {
  nlmsghdr header{sizeof(Hail), 0x1401, NLM_F_REQUEST, 7, 0};
  char text[8] = "hello";
};

class Netlink : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, kRdma);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { close(fd_); }

  // Waits for the echo and looks whether it seems to come from the kernel.
  void expect_echo() {
    char buffer[256] = {};
    sockaddr_nl source{};
    source.nl_pid = 4711;
    socklen_t length = sizeof source;
    ASSERT_EQ(recvfrom(fd_, buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&source), &length),
              static_cast<ssize_t>(sizeof(Hail)));
    EXPECT_EQ(length, sizeof source);
    EXPECT_EQ(source.nl_family, AF_NETLINK);
    EXPECT_EQ(source.nl_pid, 0u);
    EXPECT_STREQ(buffer + sizeof(nlmsghdr), "hello");
  }

  FakeDaemon daemon_;
  Hail hail_;
  sockaddr_nl kernel_{AF_NETLINK, 0, 0, 0};
  int fd_ = -1;
};

TEST_F(Netlink, socket__says_it_is_of_the_family_asked_for) {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  ASSERT_EQ(getsockopt(fd_, SOL_SOCKET, SO_PROTOCOL, &protocol, &length), 0);
  EXPECT_EQ(protocol, kRdma);
}

TEST_F(Netlink, sendto__the_kernel_is_uroced) {
  ASSERT_EQ(sendto(fd_, &hail_, sizeof hail_, 0, reinterpret_cast<sockaddr*>(&kernel_), sizeof kernel_),
            static_cast<ssize_t>(sizeof hail_));
  expect_echo();
}

TEST_F(Netlink, send_and_write__without_an_address) {
  ASSERT_EQ(send(fd_, &hail_, sizeof hail_, 0), static_cast<ssize_t>(sizeof hail_));
  expect_echo();
  ASSERT_EQ(write(fd_, &hail_, sizeof hail_), static_cast<ssize_t>(sizeof hail_));
  expect_echo();
  iovec part{&hail_, sizeof hail_};
  ASSERT_EQ(writev(fd_, &part, 1), static_cast<ssize_t>(sizeof hail_));
  expect_echo();
}

TEST_F(Netlink, connect__then_send) {
  ASSERT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&kernel_), sizeof kernel_), 0);
  ASSERT_EQ(send(fd_, &hail_, sizeof hail_, 0), static_cast<ssize_t>(sizeof hail_));
  expect_echo();
}

TEST_F(Netlink, sendmsg_and_recvmsg) {
  iovec part{&hail_, sizeof hail_};
  msghdr message{};
  message.msg_name = &kernel_;
  message.msg_namelen = sizeof kernel_;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ASSERT_EQ(sendmsg(fd_, &message, 0), static_cast<ssize_t>(sizeof hail_));
  EXPECT_EQ(kernel_.nl_pid, 0u) << "the program's own address stays";
  Hail echo;
  sockaddr_nl source{};
  source.nl_pid = 4711;
  part = {&echo, sizeof echo};
  message.msg_name = &source;
  ASSERT_EQ(recvmsg(fd_, &message, MSG_PEEK), static_cast<ssize_t>(sizeof hail_));
  ASSERT_EQ(recvmsg(fd_, &message, 0), static_cast<ssize_t>(sizeof hail_));
  EXPECT_EQ(source.nl_pid, 0u);
  EXPECT_EQ(message.msg_namelen, sizeof source);
  EXPECT_STREQ(echo.text, "hello");
}

TEST_F(Netlink, sendmmsg_and_recvmmsg) {
  iovec part{&hail_, sizeof hail_};
  mmsghdr messages[2] = {};
  for (mmsghdr& message : messages) {
    message.msg_hdr.msg_iov = &part;
    message.msg_hdr.msg_iovlen = 1;
  }
  ASSERT_EQ(sendmmsg(fd_, messages, 2, 0), 2);
  EXPECT_EQ(messages[1].msg_len, sizeof hail_);
  ASSERT_EQ(recvmmsg(fd_, messages, 2, MSG_WAITFORONE, nullptr), 1);
  expect_echo();
}

TEST_F(Netlink, read_and_recv) {
  Hail echo;
  send(fd_, &hail_, sizeof hail_, 0);
  EXPECT_EQ(read(fd_, &echo, sizeof echo), static_cast<ssize_t>(sizeof echo));
  send(fd_, &hail_, sizeof hail_, 0);
  EXPECT_EQ(recv(fd_, &echo, sizeof echo, 0), static_cast<ssize_t>(sizeof echo));
  EXPECT_EQ(recv(fd_, &echo, sizeof echo, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Netlink, bind__the_own_port_stays_the_programs) {
  sockaddr_nl own{AF_NETLINK, 0, 123456, 0};
  ASSERT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  sockaddr_nl told{};
  socklen_t length = sizeof told;
  ASSERT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&told), &length), 0);
  EXPECT_EQ(told.nl_pid, 123456u);
  send(fd_, &hail_, sizeof hail_, 0);
  expect_echo();
}

TEST_F(Netlink, receive__a_strangers_message_is_dropped) {
  sockaddr_nl own{AF_NETLINK, 0, 123456, 0};
  ASSERT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  const int stranger = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
  Hail forged;
  std::strcpy(forged.text, "forged");
  ASSERT_EQ(sendto(stranger, &forged, sizeof forged, 0, reinterpret_cast<sockaddr*>(&own), sizeof own),
            static_cast<ssize_t>(sizeof forged));
  char buffer[64];
  EXPECT_EQ(recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_GT(sendto(stranger, &forged, sizeof forged, 0, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  EXPECT_EQ(recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT | MSG_PEEK), -1);
  ASSERT_GT(sendto(stranger, &forged, sizeof forged, 0, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  send(fd_, &hail_, sizeof hail_, 0);
  expect_echo();
  close(stranger);
}

// In the child: sends "forged" from a port whose number it tells, to the port it is told.
int forge(int in, int out) {
  if (setgid(65534) != 0 || setuid(65534) != 0) return 77;
  const int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
  sockaddr_nl own{AF_NETLINK, 0, 0, 0}, to{AF_NETLINK, 0, 0, 0};
  socklen_t length = sizeof own;
  if (bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      write(out, &own.nl_pid, sizeof own.nl_pid) != sizeof own.nl_pid ||
      read(in, &to.nl_pid, sizeof to.nl_pid) != sizeof to.nl_pid) {
    return 1;
  }
  Hail forged;
  std::strcpy(forged.text, "forged");
  return sendto(fd, &forged, sizeof forged, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) ==
                 static_cast<ssize_t>(sizeof forged)
             ? 0
             : 2;
}

TEST_F(Netlink, receive__another_users_message_from_the_daemons_port_is_dropped) {
  int there[2], back[2];
  ASSERT_TRUE(pipe(there) == 0 && pipe(back) == 0);
  const pid_t squatter = fork();
  if (squatter == 0) _exit(forge(there[0], back[1]));
  close(back[1]);
  uint32_t port = 0;
  const bool squats = read(back[0], &port, sizeof port) == sizeof port;
  daemon_.announce_netlink_port(port);
  const int victim = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, kRdma);
  sockaddr_nl own{AF_NETLINK, 0, 0, 0};
  socklen_t length = sizeof own;
  ASSERT_EQ(bind(victim, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  ASSERT_EQ(getsockname(victim, reinterpret_cast<sockaddr*>(&own), &length), 0);
  if (squats) {
    ASSERT_EQ(write(there[1], &own.nl_pid, sizeof own.nl_pid), 4);
  }
  int status = -1;
  waitpid(squatter, &status, 0);
  char buffer[64];
  if (WEXITSTATUS(status) != 77) {
    EXPECT_EQ(status, 0);
    EXPECT_EQ(recv(victim, buffer, sizeof buffer, MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EAGAIN);
  }
  for (const int fd : {there[0], there[1], back[0], victim}) close(fd);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "there is no second user here";
}

TEST_F(Netlink, recvmsg__what_the_kernel_says_about_the_sender_stays_here) {
  ASSERT_EQ(send(fd_, &hail_, sizeof hail_, 0), static_cast<ssize_t>(sizeof hail_));
  Hail echo;
  alignas(cmsghdr) char control[128];
  iovec part{&echo, sizeof echo};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ASSERT_EQ(recvmsg(fd_, &message, 0), static_cast<ssize_t>(sizeof echo));
  EXPECT_EQ(message.msg_controllen, 0u);
  EXPECT_EQ(message.msg_flags & MSG_CTRUNC, 0);
}

TEST_F(Netlink, other_families__pass) {
  const int route = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  ASSERT_GE(route, 0);
  int protocol = -1;
  socklen_t length = sizeof protocol;
  getsockopt(route, SOL_SOCKET, SO_PROTOCOL, &protocol, &length);
  EXPECT_EQ(protocol, NETLINK_ROUTE);
  close(route);
}

TEST_F(Netlink, refusal__is_told_and_the_family_is_the_kernels) {
  daemon_.refuse(UROCE_ROLE_WORLD, EPERM, "not yours");
  testing::internal::CaptureStderr();
  const pid_t child = fork();
  if (child == 0) {
    const bool kernel_has_it = syscall(SYS_socket, AF_NETLINK, SOCK_RAW, kRdma) >= 0;
    const int kernels_errno = errno;
    for (int i = 0; i < 2; ++i) {
      errno = 0;
      const bool there = socket(AF_NETLINK, SOCK_RAW, kRdma) >= 0;
      if (there != kernel_has_it || (!there && errno != kernels_errno)) _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: not yours\n") << "once";
}

}  // namespace
}  // namespace uroce::preload_test
