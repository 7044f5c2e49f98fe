// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A network namespace that everybody has given up is not kept alive by its daemon.
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"
#include "tools/uroced/fd.h"

namespace uroce::daemon {
namespace {

class LifetimeTest : public InNamespace {
 protected:
  void SetUp() override {
    InNamespace::SetUp();
    if (IsSkipped()) return;
    name_ = "uroce-test-" + std::to_string(getpid());
    std::string output;
    if (run_program({"ip", "netns", "add", name_}, &output) != 0) {
      name_.clear();
      GTEST_SKIP() << "no named namespaces here: " << output;
    }
    ASSERT_EQ(run_program({"ip", "link", "add", "out", "type", "veth", "peer", "name", "in", "netns", name_}),
              0);
  }
  void TearDown() override {
    if (!name_.empty()) run_program({"ip", "netns", "del", name_});
    InNamespace::TearDown();
  }
  // Runs in the named namespace, in a process of its own; what it returns comes back.
  int inside(const std::function<int()>& work) {
    const pid_t child = start_inside([&] { _exit(work()); });
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t start_inside(const std::function<void()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      const Fd ns(open(("/run/netns/" + name_).c_str(), O_RDONLY | O_CLOEXEC));
      if (setns(ns.get(), CLONE_NEWNET) != 0) _exit(98);
      work();
      _exit(97);
    }
    return child;
  }
  // A daemon with a device on `in`; its processes are remembered.
  void start_daemon_inside() {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(inside([&] {
                if (autostart() != 0) return 1;
                const auto answer = admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "in"}});
                for (const char* member : {"pid", "keeper_pid"}) {
                  const pid_t pid = status().value(member, 0);
                  if (write(ends[1], &pid, sizeof pid) != sizeof pid) return 2;
                }
                return answer.value("ok", false) ? 0 : 3;
              }),
              0);
    for (int i = 0; i < 2; ++i) {
      pid_t pid = 0;
      ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
      to_end_.push_back(pid);
    }
    close(ends[0]);
    close(ends[1]);
  }
  bool daemon_lives() { return process_lives(to_end_[0]) || process_lives(to_end_[1]); }

  std::string name_;
};

TEST_F(LifetimeTest, deleting_the_namespace_ends_the_daemon_and_the_veth) {
  start_daemon_inside();
  ASSERT_TRUE(daemon_lives());
  ASSERT_EQ(run_program({"ip", "netns", "del", name_}), 0);
  name_.clear();
  EXPECT_TRUE(becomes_true([&] { return !daemon_lives(); }));
  EXPECT_TRUE(becomes_true([&] { return if_nametoindex("out") == 0; })) << "the veth's end out here";
}

TEST_F(LifetimeTest, a_client_keeps_the_daemon_until_it_goes) {
  start_daemon_inside();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t user = start_inside([&] {
    DaemonClient client;
    const char ok = client.connect() && client.open_device() ? 'y' : 'n';
    [[maybe_unused]] const auto n = write(ends[1], &ok, 1);
    pause();
  });
  char ok = 0;
  ASSERT_EQ(read(ends[0], &ok, 1), 1);
  ASSERT_EQ(ok, 'y');
  close(ends[0]);
  close(ends[1]);
  ASSERT_EQ(run_program({"ip", "netns", "del", name_}), 0);
  name_.clear();
  EXPECT_FALSE(becomes_true([&] { return !daemon_lives(); }, 3)) << "it left a client alone";
  kill(user, SIGKILL);
  waitpid(user, nullptr, 0);
  EXPECT_TRUE(becomes_true([&] { return !daemon_lives(); }));
}

TEST_F(LifetimeTest, without_a_name_the_last_process_counts) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t last = fork();
  if (last == 0) {
    if (unshare(CLONE_NEWNET) != 0 || autostart() != 0) _exit(1);
    for (const char* member : {"pid", "keeper_pid"}) {
      const pid_t pid = status().value(member, 0);
      [[maybe_unused]] const auto n = write(ends[1], &pid, sizeof pid);
    }
    pause();
    _exit(0);
  }
  close(ends[1]);
  for (int i = 0; i < 2; ++i) {
    pid_t pid = 0;
    ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
    to_end_.push_back(pid);
  }
  close(ends[0]);
  EXPECT_FALSE(becomes_true([&] { return !daemon_lives(); }, 3));
  kill(last, SIGKILL);
  waitpid(last, nullptr, 0);
  EXPECT_TRUE(becomes_true([&] { return !daemon_lives(); }));
}

}  // namespace
}  // namespace uroce::daemon
