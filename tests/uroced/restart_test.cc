// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The worker dies, or the keeper: what goes on, what ends, and how a new daemon starts.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"

namespace uroce::daemon {
namespace {

constexpr uint32_t kDeviceFatal = 8, kPortError = 10;

class Restart : public InNamespace {
 protected:
  void SetUp() override {
    InNamespace::SetUp();
    if (!IsSkipped()) start_with_device();
  }
  void kill_worker() {
    const pid_t old = worker();
    kill(old, SIGKILL);
    ASSERT_TRUE(becomes_true([&] {
      const pid_t now = worker();
      return now != 0 && now != old;
    }));
  }
  int send_packet(uint32_t slot) {
    const Fd sender(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(4791);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const uint32_t qpn = slot << 14;
    const uint8_t bth[16] = {
        4, 0, 0xff, 0xff, 0, static_cast<uint8_t>(qpn >> 16), static_cast<uint8_t>(qpn >> 8)};
    return static_cast<int>(
        sendto(sender.get(), bth, sizeof bth, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to));
  }
  bool has_packet(int fd) {
    uint8_t got[64];
    return recv(fd, got, sizeof got, MSG_DONTWAIT) > 0;
  }
};

TEST_F(Restart, of_the_worker_keeps_devices_contexts_objects_and_sockets) {
  DaemonClient client, data;
  ASSERT_TRUE(client.connect() && client.open_device() && data.connect());
  const auto grant = data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie());
  ASSERT_EQ(grant.status, 0);
  const uint32_t pd = client.alloc_pd(), cq = client.create_cq();
  const auto before = status();
  const auto netlink_port = [] {
    DaemonClient world;
    return world.connect() ? world.hello(UROCE_ROLE_WORLD).reply.netlink_port : 0;
  };
  const uint32_t port = netlink_port();
  EXPECT_NE(port, 0u);

  kill_worker();
  EXPECT_EQ(netlink_port(), port);
  const auto after = status();
  EXPECT_EQ(after["worker_generation"], 2);
  EXPECT_EQ(after["keeper_pid"], before["keeper_pid"]);
  EXPECT_EQ(after["tree"], before["tree"]);
  EXPECT_EQ(after["devices"].at(0)["node_guid"], before["devices"].at(0)["node_guid"]);
  EXPECT_EQ(after["devices"].at(0)["gids"], before["devices"].at(0)["gids"]);
  EXPECT_EQ(after["contexts"].size(), 1u);
  EXPECT_TRUE(
      std::filesystem::exists(after["tree"].get<std::string>() + "/sys/class/infiniband/ur0/ports/1/state"));

  EXPECT_NE(client.create_qp(pd, cq).qpn, 0u) << "the old handles are good";
  EXPECT_EQ(client.restarts(), 1);
  EXPECT_GT(send_packet(client.slot()), 0);
  EXPECT_TRUE(has_packet(grant.descriptors[0].get()));

  // A slot that is new to the group, beside the old one.
  DaemonClient second, second_data;
  ASSERT_TRUE(second.connect() && second.open_device() && second_data.connect());
  const auto second_grant = second_data.hello(UROCE_ROLE_BROKER, second.slot(), second.cookie());
  ASSERT_EQ(second_grant.status, 0);
  send_packet(second.slot());
  EXPECT_TRUE(has_packet(second_grant.descriptors[0].get()));
  EXPECT_FALSE(has_packet(grant.descriptors[0].get()));

  ASSERT_EQ(run_program({"ip", "link", "set", "lo", "down"}), 0);
  EXPECT_EQ(client.next_event(), kPortError);
  client.disconnect();
  EXPECT_TRUE(becomes_true([&] { return status()["contexts"].size() == 1; }));
}

TEST_F(Restart, finds_out_about_deaths_and_netdevs_that_it_missed) {
  ASSERT_EQ(run_program({"ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"}), 0);
  ASSERT_TRUE(admin({{"command", "link-add"}, {"device", "ur1"}, {"netdev", "v0"}}).value("ok", false));
  DaemonClient client;
  ASSERT_TRUE(client.connect() && client.open_device());
  const pid_t old = worker();
  kill(old, SIGSTOP);
  client.disconnect();
  ASSERT_EQ(run_program({"ip", "link", "del", "v0"}), 0);
  kill(old, SIGKILL);
  EXPECT_TRUE(becomes_true([&] {
    const auto now = status();
    return now.value("worker_generation", 0) == 2 && now["contexts"].empty() && now["devices"].size() == 1;
  })) << status();
}

// Kills each worker a short and random while after it has come up, until it is killed itself.
class WorkerKiller {
 public:
  explicit WorkerKiller(const std::function<pid_t()>& worker) : pid_(fork()) {
    if (pid_ != 0) return;
    unsigned seed = 7;
    for (pid_t killed = 0;;) {
      const pid_t now = worker();
      if (now == 0 || now == killed) continue;
      usleep(static_cast<useconds_t>(rand_r(&seed) % 10'000));
      kill(killed = now, SIGKILL);
    }
  }
  ~WorkerKiller() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

// Workers die all the time while commands are given; each command happens once.
TEST_F(Restart, commands_happen_exactly_once_while_workers_die) {
  constexpr int kDeaths = 25;
  DaemonClient client;
  ASSERT_TRUE(client.connect() && client.open_device());
  const uint32_t cq = client.create_cq();
  std::set<uint32_t> pds;
  {
    const WorkerKiller killer([this] { return worker(); });
    for (int made = 1; client.restarts() < kDeaths; ++made) {
      const uint32_t pd = client.alloc_pd();
      ASSERT_NE(pd, 0u) << "command " << made << ": " << client.last().status;
      EXPECT_TRUE(pds.insert(pd).second) << "handle " << pd << " twice";
      // Half of them go at once, so that both directions are cut off; those in use must not.
      if (made % 2 != 0) continue;
      const ib_uverbs_dealloc_pd dealloc{.pd_handle = pd};
      const auto qp = client.create_qp(pd, cq);
      ASSERT_NE(qp.qpn, 0u);
      ASSERT_EQ(client.command(IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), EBUSY);
      ib_uverbs_destroy_qp destroy{};
      destroy.qp_handle = qp.qp_handle;
      ib_uverbs_destroy_qp_resp destroyed{};
      ASSERT_EQ(client.command(IB_USER_VERBS_CMD_DESTROY_QP, destroy, &destroyed), 0);
      ASSERT_EQ(client.command(IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), 0);
      pds.erase(pd);
    }
  }
  ASSERT_TRUE(becomes_true([&] { return status().value("ok", false); }, 30));
  auto objects = status()["contexts"].at(0)["objects"];
  EXPECT_EQ(objects["pd"].get<size_t>(), pds.size());
  EXPECT_EQ(objects["qp"], 0);
  EXPECT_EQ(objects["cq"], 1);
  for (const uint32_t pd : pds)
    ASSERT_EQ(client.command(IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{.pd_handle = pd}), 0);
  EXPECT_EQ(status()["contexts"].at(0)["objects"]["pd"], 0);
}

TEST_F(Restart, opening_a_device_survives_the_workers_death) {
  for (int i = 0; i < 5; ++i) {
    DaemonClient client;
    ASSERT_TRUE(client.connect());
    const pid_t old = worker();
    kill(old, SIGSTOP);
    uroce_hello body{};
    body.role = UROCE_ROLE_UVERBS;
    ASSERT_TRUE(client.send(UROCE_MSG_HELLO, 0, std::as_bytes(std::span(&body, 1))));
    kill(old, SIGKILL);
    ASSERT_TRUE(client.open_device()) << i;
    EXPECT_GE(client.async_fd(), 0);
  }
}

class KeeperDeath : public Restart {
 protected:
  void kill_keeper() {
    const auto now = status();
    keeper_pid_ = now["keeper_pid"];
    worker_pid_ = now["pid"];
    kill(keeper_pid_, SIGKILL);
  }
  pid_t keeper_pid_ = 0, worker_pid_ = 0;
};

TEST_F(KeeperDeath, ends_the_contexts_and_a_new_daemon_works_when_the_port_is_free) {
  DaemonClient client, data;
  ASSERT_TRUE(client.connect() && client.open_device() && data.connect());
  auto grant = data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie());
  ASSERT_EQ(grant.status, 0);
  const std::string tree = status()["tree"];
  kill_keeper();
  EXPECT_EQ(client.next_event(), kDeviceFatal);
  EXPECT_TRUE(becomes_true([&] { return !process_lives(worker_pid_); }));
  EXPECT_EQ(client.alloc_pd(), 0u);
  EXPECT_FALSE(std::filesystem::exists(tree));

  std::string output;
  ASSERT_EQ(autostart(&output), 0) << output;
  EXPECT_NE(keeper(), keeper_pid_);
  const auto refused = admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "lo"}});
  EXPECT_EQ(refused.value("errno", 0), EADDRINUSE);
  EXPECT_NE(refused.value("error", "").find("process " + std::to_string(getpid())), std::string::npos)
      << refused;
  grant.descriptors.clear();
  EXPECT_TRUE(admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "lo"}}).value("ok", false));
  DaemonClient next;
  EXPECT_TRUE(next.connect() && next.open_device());
}

TEST_F(KeeperDeath, of_both_at_once_leaves_room_for_a_new_daemon) {
  DaemonClient client;
  ASSERT_TRUE(client.connect() && client.open_device());
  const auto now = status();
  kill(now["keeper_pid"].get<pid_t>(), SIGSTOP);  // so that it starts no other worker
  kill(now["pid"].get<pid_t>(), SIGKILL);
  kill(now["keeper_pid"].get<pid_t>(), SIGKILL);
  EXPECT_EQ(client.alloc_pd(), 0u) << "the connection has ended";
  ASSERT_EQ(autostart(), 0);
  EXPECT_TRUE(admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "lo"}}).value("ok", false));
}

TEST_F(KeeperDeath, a_signal_to_end_is_a_good_end) {
  DaemonClient client;
  ASSERT_TRUE(client.connect() && client.open_device());
  const auto now = status();
  kill(now["keeper_pid"].get<pid_t>(), SIGTERM);
  EXPECT_EQ(client.next_event(), kDeviceFatal);
  EXPECT_TRUE(becomes_true([&] {
    return !process_lives(now["keeper_pid"].get<pid_t>()) && !process_lives(now["pid"].get<pid_t>());
  }));
  EXPECT_FALSE(std::filesystem::exists(now["tree"].get<std::string>()));
}

}  // namespace
}  // namespace uroce::daemon
