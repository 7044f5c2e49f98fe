// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Finding uroced: by namespace, by owner, by starting it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "tests/preload/fake_daemon.h"
#include "tests/preload/program.h"

namespace uroce::preload_test {
namespace {

bool tree_is_there() {
  return access("/sys/class/infiniband/ur0/node_guid", R_OK) == 0;
}

// What a process has learned it remembers for a second: those that must not find anything are children.
bool child_sees_tree() {
  const pid_t child = fork();
  if (child == 0) _exit(tree_is_there() ? 1 : errno == ENOENT ? 0 : 2);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_LE(WEXITSTATUS(status), 1) << "an errno that the kernel would not give";
  return WEXITSTATUS(status) == 1;
}

TEST(World, no_daemon__the_host_is_seen) {
  EXPECT_FALSE(child_sees_tree());
}

TEST(World, many_looks__one_question) {
  FakeDaemon daemon;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(tree_is_there());
  EXPECT_LT(daemon.hellos(UROCE_ROLE_WORLD), 50);
}

TEST(World, another_daemon__is_found_when_the_first_has_left) {
  for (int i = 0; i < 3; ++i) {
    FakeDaemon daemon;
    EXPECT_TRUE(tree_is_there()) << i;
  }
}

TEST(World, setns__another_namespace_has_another_world) {
  FakeDaemon daemon;
  ASSERT_TRUE(tree_is_there());
  const int home = open("/proc/self/ns/net", O_RDONLY);
  ASSERT_EQ(unshare(CLONE_NEWNET), 0);
  EXPECT_FALSE(tree_is_there());
  ASSERT_EQ(setns(home, CLONE_NEWNET), 0);
  EXPECT_TRUE(tree_is_there());
  close(home);
}

TEST(World, fork__the_child_asks_for_itself) {
  FakeDaemon daemon;
  ASSERT_TRUE(tree_is_there());
  const int before = daemon.hellos(UROCE_ROLE_WORLD);
  const pid_t child = fork();
  if (child == 0) _exit(tree_is_there() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(daemon.hellos(UROCE_ROLE_WORLD), before + 1);
}

// The name is taken by a process of another user.
TEST(World, squatter__is_not_believed) {
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t squatter = fork();
  if (squatter == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(77);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const char name[] = "uroce-0";
    std::copy(name, name + 7, address.sun_path + 1);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t) + 8) != 0 || listen(fd, 8) != 0)
      _exit(1);
    char byte = 'r';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    close(done[1]);
    _exit(read(done[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(ready[1]);
  char byte;
  const bool squats = read(ready[0], &byte, 1) == 1;
  if (squats) {
    EXPECT_FALSE(child_sees_tree());
  }
  close(done[1]);
  int status = -1;
  waitpid(squatter, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "there is no second user here";
  EXPECT_EQ(status, 0);
}

// A socket that has the name and accepts nothing, its queue full; -1: another one has it.
int deaf_socket(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (bind(fd, at, length) != 0 || listen(fd, 0) != 0) return -1;
  return connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), at, length) == 0 ? fd : -1;
}

// Whose it is nobody can see; the daemon behind it is the user's own, as root made it.
TEST(World, squatter_that_does_not_accept__does_not_hide_a_daemon) {
  const int status = in_child([] {
    if (deaf_socket("uroce-1234") < 0) return 2;
    const FakeDaemon daemon;
    if (seteuid(1234) != 0) return 77;
    const bool there = tree_is_there();
    return seteuid(0) == 0 && there ? 0 : 1;  // root's again, who takes the tree away
  });
  if (status == 77) GTEST_SKIP() << "there is no second user here";
  EXPECT_EQ(status, 0);
}

constexpr uid_t kNobody = 65534;

// The child's exit status; 77: there is no second user here.
int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool netlink_answers() {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 20);
  const nlmsghdr hail{sizeof hail, 0x1401, NLM_F_REQUEST, 7, 0};
  nlmsghdr echo{};
  const bool answers = fd >= 0 && send(fd, &hail, sizeof hail, 0) == sizeof hail &&
                       recv(fd, &echo, sizeof echo, 0) == sizeof echo && echo.nlmsg_seq == 7;
  close(fd);
  return answers;
}

// 0, or which step is not as it should be.
int give_up_root(int reached, int daemon) {
  char byte;
  if (read(daemon, &byte, 1) != 1) return 9;
  if (!tree_is_there()) return 1;
  if (setgid(kNobody) != 0 || setuid(kNobody) != 0) return 77;
  if (!tree_is_there()) return 2;
  if (!netlink_answers()) return 3;
  if (!tree_is_there()) return 4;
  if (open("/dev/infiniband/uverbs0", O_RDWR) != -1 || errno != EPERM) return 5;
  if (!tree_is_there()) return 6;
  if (write(reached, &byte, 1) != 1 || read(daemon, &byte, 1) != 0) return 7;
  return tree_is_there() ? 8 : 0;
}

TEST(World, root_given_up__the_world_stays_while_its_tree_exists) {
  int reached[2], there[2];  // a byte: the daemon is there; the end: it has left
  ASSERT_EQ(pipe(reached), 0);
  ASSERT_EQ(pipe(there), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(there[1]);
    _exit(give_up_root(reached[1], there[0]));
  }
  std::optional<FakeDaemon> daemon(std::in_place);  // not the child's too
  close(reached[1]);
  char byte = 't';
  EXPECT_EQ(write(there[1], &byte, 1), 1);
  const bool lives = read(reached[0], &byte, 1) == 1;
  daemon.reset();
  close(there[1]);
  const int status = status_of(child);
  close(reached[0]);
  close(there[0]);
  if (status == 77) GTEST_SKIP() << "there is no second user here";
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(lives);
}

// 0, or which step is not as it should be.
int look_without_descriptors() {
  if (!tree_is_there()) return 1;
  const int free_number = dup(0);
  close(free_number);
  const rlimit none{static_cast<rlim_t>(free_number), static_cast<rlim_t>(free_number)};
  if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
  if (socket(AF_NETLINK, SOCK_RAW, 20) != -1 || errno != EMFILE) return 3;  // asks anew, in vain
  return tree_is_there() ? 0 : 4;
}

TEST(World, no_descriptor_left_to_ask_with__the_world_stays) {
  const FakeDaemon daemon;
  const pid_t child = fork();
  if (child == 0) _exit(look_without_descriptors());
  EXPECT_EQ(status_of(child), 0);
}

// 0, or which step is not as it should be.
int become_root_again() {
  if (seteuid(kNobody) != 0) return 77;
  const FakeDaemon daemon;
  if (!tree_is_there()) return 1;
  if (seteuid(0) != 0) return 2;
  return tree_is_there() ? 3 : 0;
}

TEST(World, root_again__a_users_world_is_not_believed) {
  const pid_t child = fork();
  if (child == 0) _exit(become_root_again());
  const int status = status_of(child);
  if (status == 77) GTEST_SKIP() << "there is no second user here";
  EXPECT_EQ(status, 0);
}

class Autostart : public ::testing::Test {
 protected:
  void SetUp() override {
    std::snprintf(report_, sizeof report_, "/tmp/uroce-preload-report-%d", getpid());
    setenv("UROCE_TEST_REPORT", report_, 1);
    setenv("UROCE_TEST_PARENT", std::to_string(getpid()).c_str(), 1);
    char self[512] = {};
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    setenv("UROCE_DAEMON", self, 1);
  }
  void TearDown() override { unlink(report_); }

  std::map<std::string, std::string> report() const {
    std::map<std::string, std::string> found;
    std::ifstream file(report_);
    for (std::string line; std::getline(file, line);)
      found[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    return found;
  }

  char report_[64];
};

volatile sig_atomic_t children;

TEST_F(Autostart, on_first_use__the_program_notices_nothing) {
  struct sigaction action {};
  action.sa_handler = [](int) { children = children + 1; };
  sigaction(SIGCHLD, &action, nullptr);
  dup2(1, 40);  // not close-on-exec
  EXPECT_TRUE(tree_is_there());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a child was left";
  EXPECT_EQ(children, 0);
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGUSR1), 0);
  auto told = report();
  EXPECT_EQ(told["preload"], "");
  EXPECT_EQ(told["inherited"], "no");
  for (const char* number : {"0", "1", "2"}) EXPECT_EQ(told[number], "/dev/null");
}

TEST_F(Autostart, with_sigchld_ignored) {
  signal(SIGCHLD, SIG_IGN);
  EXPECT_TRUE(tree_is_there());
}

TEST_F(Autostart, with_closed_standard_streams) {
  const int out = dup(1), error = dup(2);
  for (int fd = 0; fd <= 2; ++fd) close(fd);
  const bool there = tree_is_there();
  dup2(out, 1);
  dup2(error, 2);
  EXPECT_TRUE(there);
}

TEST_F(Autostart, not_for_other_programs) {
  EXPECT_EQ(access("/sys/class/net", F_OK), 0);
  const int fd = open("/dev/null", O_RDWR);
  close(fd);
  EXPECT_TRUE(report().empty());
}

}  // namespace
}  // namespace uroce::preload_test
