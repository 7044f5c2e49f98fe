// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Names and users.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"

namespace uroce::daemon {
namespace {

constexpr uid_t kNobody = 65534;

class Identity : public InNamespace {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
    InNamespace::SetUp();
  }
  // Exit status of `work` in a process of uid nobody.
  int as_nobody(const std::function<int()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(setuid(kNobody) != 0 ? 99 : work());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(Identity, a_second_uid_is_refused_and_told_who_is_served) {
  start_with_device();
  for (const uint32_t role : {UROCE_ROLE_WORLD, UROCE_ROLE_UVERBS, UROCE_ROLE_ADMIN, UROCE_ROLE_BROKER}) {
    EXPECT_EQ(as_nobody([&] {
                DaemonClient client;
                if (!client.connect(0)) return 1;
                const auto told = client.hello(role);
                if (told.status != EPERM) return 2;
                const std::string text = told.reply.text;
                if (text.find("uid 0") == std::string::npos || text.find("uid 65534") == std::string::npos)
                  return 3;
                if (told.reply.tree[0] != '\0') return 4;
                char byte;
                return recv(client.descriptor(), &byte, 1, 0) == 0 ? 0 : 5;
              }),
              0)
        << role;
  }
}

// Starts a daemon as uid nobody, who may not see the build tree; its exit status.
int start_as_nobody(std::string& output) {
  return run_program(
      {"sh", "-c",
       "exec 9< " UROCED
       "; exec setpriv --reuid 65534 --regid 65534 --clear-groups /proc/self/fd/9 --autostart"},
      &output);
}

TEST_F(Identity, a_daemon_with_a_device_is_the_only_one) {
  start_with_device();
  std::string output;
  EXPECT_EQ(start_as_nobody(output), 1);
  EXPECT_NE(output.find("belongs to uid 0"), std::string::npos) << output;
  EXPECT_NE(output.find("you are uid 65534"), std::string::npos) << output;
  EXPECT_EQ(as_nobody([] {
              DaemonClient client;
              return client.connect(kNobody) ? 1 : 0;
            }),
            0)
      << "there are two daemons";
  EXPECT_TRUE(status().value("ok", false));
}

TEST_F(Identity, a_daemon_that_nobody_needs_makes_way) {
  ASSERT_EQ(autostart(), 0);
  const pid_t first = keeper();
  // Who only looks does not end it.
  EXPECT_EQ(as_nobody([] {
              DaemonClient client;
              return client.connect(0) && client.hello(UROCE_ROLE_ADMIN).status == EAGAIN ? 0 : 1;
            }),
            0);
  std::string output;
  EXPECT_EQ(start_as_nobody(output), 0) << output;
  EXPECT_FALSE(process_lives(first));
  EXPECT_EQ(as_nobody([] {
              DaemonClient client;
              return client.connect(kNobody) && client.hello(UROCE_ROLE_WORLD).status == 0 ? 0 : 1;
            }),
            0);
  // And back again.
  ASSERT_EQ(autostart(&output), 0) << output;
  EXPECT_TRUE(status().value("ok", false));
}

TEST_F(Identity, a_daemon_that_is_asked_to_make_way_stays_when_a_device_is_made) {
  ASSERT_EQ(autostart(), 0);
  EXPECT_EQ(as_nobody([] {
              DaemonClient client;
              return client.connect(0) && client.hello(UROCE_ROLE_WORLD).status == EAGAIN ? 0 : 1;
            }),
            0);
  ASSERT_TRUE(admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "lo"}}).value("ok", false));
  std::string output;
  EXPECT_EQ(start_as_nobody(output), 1) << output;
  EXPECT_TRUE(status().value("ok", false));
}

TEST_F(Identity, commands_without_hello_are_refused) {
  start_with_device();
  EXPECT_EQ(as_nobody([&] {
              DaemonClient client;
              if (!client.connect(0)) return 1;
              const std::string text = "{\"command\":\"stop\"}";
              client.send(UROCE_MSG_ADMIN, 1, std::as_bytes(std::span(text)));
              return client.receive() ? 2 : 0;
            }),
            0);
  EXPECT_TRUE(status().value("ok", false));
}

TEST_F(Identity, a_squatted_name_is_an_error_that_names_the_squatter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t squatter = fork();
  if (squatter == 0) {
    if (setuid(kNobody) != 0) _exit(1);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const char name[] = "uroce-0";
    std::memcpy(address.sun_path + 1, name, sizeof name - 1);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + sizeof name)) != 0 ||
        listen(fd, 5) != 0) {
      _exit(1);
    }
    [[maybe_unused]] const auto n = write(ends[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  std::string output;
  EXPECT_NE(run_program({UROCED, "--autostart"}, &output), 0);
  EXPECT_NE(output.find(std::to_string(squatter)), std::string::npos) << output;
  EXPECT_NE(output.find("65534"), std::string::npos) << output;
  kill(squatter, SIGKILL);
  waitpid(squatter, nullptr, 0);
}

TEST_F(Identity, the_broker_gives_a_context_to_its_own_process_only) {
  start_with_device();
  DaemonClient device;
  ASSERT_TRUE(device.connect() && device.open_device());
  DaemonClient wrong;
  ASSERT_TRUE(wrong.connect());
  EXPECT_EQ(wrong.hello(UROCE_ROLE_BROKER, device.slot(), device.cookie() + 1).status, EPERM);
  const pid_t child = fork();
  if (child == 0) {
    DaemonClient other;
    _exit(other.connect() && other.hello(UROCE_ROLE_BROKER, device.slot(), device.cookie()).status == EPERM
              ? 0
              : 1);
  }
  int result = -1;
  waitpid(child, &result, 0);
  EXPECT_EQ(result, 0);
  DaemonClient right;
  ASSERT_TRUE(right.connect());
  EXPECT_EQ(right.hello(UROCE_ROLE_BROKER, device.slot(), device.cookie()).status, 0);
}

}  // namespace
}  // namespace uroce::daemon
