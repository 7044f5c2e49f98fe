// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Clients that die give everything back, and nobody gets what another process still holds.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"

namespace uroce::daemon {
namespace {

class Death : public InNamespace {
 protected:
  void SetUp() override {
    InNamespace::SetUp();
    if (!IsSkipped()) start_with_device();
  }
  void TearDown() override {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
    InNamespace::TearDown();
  }

  struct Child {
    pid_t pid = -1;
    uint32_t slot = 0;
  };
  // A process with a context, some objects and its data path open; `then` runs in it at last.
  Child start_child(const std::function<void()>& then = [] { pause(); }) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    Child child;
    child.pid = fork();
    if (child.pid == 0) {
      DaemonClient client, data;
      uint32_t slot = 0;
      if (client.connect() && client.open_device() && data.connect()) {
        const auto grant = data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie());
        const uint32_t pd = client.alloc_pd();
        if (grant.status == 0 && client.create_qp(pd, client.create_cq()).qpn != 0) slot = client.slot();
        [[maybe_unused]] const auto n = write(ends[1], &slot, sizeof slot);
        then();
      }
      _exit(1);
    }
    children_.push_back(child.pid);
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &child.slot, sizeof child.slot), static_cast<ssize_t>(sizeof child.slot));
    close(ends[0]);
    EXPECT_NE(child.slot, 0u);
    return child;
  }
  void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    std::erase(children_, pid);
  }
  size_t contexts() { return status()["contexts"].size(); }
  uint32_t slot_of_a_new_context() {
    DaemonClient client;
    return client.connect() && client.open_device() ? client.slot() : 0;
  }

  std::vector<pid_t> children_;
};

TEST_F(Death, of_a_process_frees_its_context) {
  const Child child = start_child();
  EXPECT_EQ(contexts(), 1u);
  end(child.pid);
  EXPECT_TRUE(becomes_true([&] { return contexts() == 0; }));
  EXPECT_TRUE(becomes_true([&] { return slot_of_a_new_context() == child.slot; }))
      << "the slot is free again";
}

TEST_F(Death, counts_though_a_forked_child_keeps_the_connection) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Child child = start_child([&] {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      pause();
      _exit(0);
    }
    [[maybe_unused]] const auto n = write(ends[1], &grandchild, sizeof grandchild);
    pause();
  });
  pid_t grandchild = 0;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  end(child.pid);
  EXPECT_TRUE(becomes_true([&] { return contexts() == 0; })) << "no waiting for the connection's end";

  // The grandchild can read the receive socket: nobody else gets it.
  for (int i = 0; i < 3; ++i) EXPECT_NE(slot_of_a_new_context(), child.slot);
  kill(grandchild, SIGKILL);
  // Slots that were left by us meanwhile come first; all of them are taken until the old one turns up.
  std::vector<DaemonClient> taken;
  EXPECT_TRUE(becomes_true([&] {
    DaemonClient client;
    if (!client.connect() || !client.open_device()) return false;
    const bool found = client.slot() == child.slot;
    if (taken.size() < 20) taken.push_back(std::move(client));
    return found;
  }));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Death, leaves_no_packets_to_the_next_owner) {
  const Child child = start_child();
  const Fd sender(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const uint32_t qpn = child.slot << 14;
  const uint8_t bth[16] = {
      4, 0, 0xff, 0xff, 0, static_cast<uint8_t>(qpn >> 16), static_cast<uint8_t>(qpn >> 8), 0};
  const auto send_some = [&] {
    for (int i = 0; i < 50; ++i)
      sendto(sender.get(), bth, sizeof bth, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  };
  send_some();
  end(child.pid);
  ASSERT_TRUE(becomes_true([&] { return contexts() == 0; }));
  send_some();
  DaemonClient client;
  ASSERT_TRUE(becomes_true([&] {
    client = DaemonClient();
    return client.connect() && client.open_device() && client.slot() == child.slot;
  }));
  DaemonClient data;
  ASSERT_TRUE(data.connect());
  const auto grant = data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie());
  ASSERT_EQ(grant.status, 0);
  uint8_t got[64];
  EXPECT_LT(recv(grant.descriptors[0].get(), got, sizeof got, MSG_DONTWAIT), 0);
  send_some();
  EXPECT_EQ(recv(grant.descriptors[0].get(), got, sizeof got, MSG_DONTWAIT),
            static_cast<ssize_t>(sizeof bth));
}

TEST_F(Death, a_hundred_processes_come_and_go) {
  const auto descriptors = [](pid_t pid) {
    std::string output;
    run_program({"sh", "-c", "ls /proc/" + std::to_string(pid) + "/fd | wc -l"}, &output);
    return std::stoi(output);
  };
  const pid_t daemon = worker();
  end(start_child().pid);
  ASSERT_TRUE(becomes_true([&] { return contexts() == 0; }));
  ASSERT_TRUE(becomes_true([&] { return slot_of_a_new_context() == 1; }));
  const int before = descriptors(daemon), kept_before = descriptors(keeper());
  for (int i = 0; i < 100; ++i) end(start_child().pid);
  ASSERT_TRUE(becomes_true([&] { return contexts() == 0; }));
  // A few slots may have been added, because a death is noticed a moment later than the next birth.
  EXPECT_TRUE(becomes_true([&] { return descriptors(daemon) <= before + 10; }));
  EXPECT_TRUE(becomes_true([&] { return descriptors(keeper()) <= kept_before + 10; }));
}

}  // namespace
}  // namespace uroce::daemon
