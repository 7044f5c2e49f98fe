// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Whoever connects: crowds, strangers, and messages that are nearly right.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"

namespace uroce::daemon {
namespace {

class Hostile : public InNamespace {
 protected:
  void SetUp() override {
    InNamespace::SetUp();
    if (!IsSkipped()) start_with_device();
  }
  static size_t descriptors(pid_t pid) {
    size_t n = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd"))
      n++;
    return n;
  }
};

TEST_F(Hostile, a_crowd_of_strangers_takes_nobodys_place) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t crowd = fork();
  if (crowd == 0) {
    if (setuid(65534) != 0) _exit(1);
    std::vector<DaemonClient> clients(300);
    for (auto& client : clients) client.connect(0);
    [[maybe_unused]] const auto n = write(ends[1], "x", 1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_TRUE(becomes_true([&] {
    const auto now = status();
    return now.value("ok", false) && now["clients"].get<int>() < 100;
  }));
  DaemonClient client;
  EXPECT_TRUE(client.connect() && client.open_device());
  kill(crowd, SIGKILL);
  waitpid(crowd, nullptr, 0);
  EXPECT_TRUE(becomes_true([&] { return status()["clients"] == 2; })) << "the device's and the asking one";
}

// A well formed start, then bytes of it changed; some carry descriptors.
TEST_F(Hostile, nearly_right_messages_leave_nothing_behind) {
  const pid_t before = worker();
  {
    DaemonClient warm;
    ASSERT_TRUE(warm.connect() && warm.open_device());
  }
  ASSERT_TRUE(becomes_true([&] { return status()["contexts"].empty(); }));
  const size_t worker_had = descriptors(before), keeper_had = descriptors(keeper());
  const Fd carried(open("/dev/null", O_RDWR | O_CLOEXEC));
  unsigned seed = 4791;
  const auto random_below = [&](int n) { return rand_r(&seed) % n; };
  for (int round = 0; round < 400; ++round) {
    DaemonClient client, data;
    ASSERT_TRUE(client.connect());
    if (round % 2 == 0) {
      ASSERT_TRUE(client.open_device());
    }
    if (round % 4 == 0 && data.connect()) data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie());
    for (int i = 0; i < 10; ++i) {
      ib_uverbs_create_qp body{};
      auto* bytes = reinterpret_cast<uint8_t*>(&body);
      for (size_t k = 0; k < sizeof body; ++k)
        bytes[k] = random_below(3) == 0 ? static_cast<uint8_t>(random_below(256)) : 0;
      auto written = DaemonClient::legacy(static_cast<uint32_t>(random_below(64)),
                                          std::as_bytes(std::span(&body, 1)), 64);
      if (random_below(4) == 0)
        written.resize(static_cast<size_t>(random_below(static_cast<int>(written.size()))));
      uroce_msg header{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, static_cast<uint16_t>(random_below(8)),
                       static_cast<uint32_t>(100 + i), random_below(3)};
      const int numbers[] = {carried.get(), carried.get(), carried.get()};
      const auto count = static_cast<size_t>(random_below(4));
      send_message(random_below(3) == 0 && data.descriptor() >= 0 ? data.descriptor() : client.descriptor(),
                   header, written, std::span(numbers).first(count));
    }
  }
  EXPECT_EQ(worker(), before) << "a worker has died of it";
  EXPECT_TRUE(becomes_true([&] { return status()["clients"] == 1 && status()["contexts"].empty(); }));
  // Receive sockets stay with the slots that were added.
  EXPECT_TRUE(becomes_true([&] { return descriptors(before) <= worker_had + 20; })) << descriptors(before);
  EXPECT_TRUE(becomes_true([&] { return descriptors(keeper()) <= keeper_had + 20; }))
      << descriptors(keeper());
}

TEST_F(Hostile, more_connections_than_places_are_turned_away_and_come_back) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < 6000) GTEST_SKIP() << "needs 6000 descriptors, the limit is " << files.rlim_max;
  const rlimit many{files.rlim_max, files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &many);
  std::vector<DaemonClient> clients;
  for (int i = 0; i < 4200; ++i) {
    clients.emplace_back();
    if (!clients.back().connect()) break;
  }
  EXPECT_GE(clients.size(), 4000u);
  clients.clear();
  EXPECT_TRUE(becomes_true([&] { return status().value("clients", 99) == 1; }));
  DaemonClient client;
  EXPECT_TRUE(client.connect() && client.open_device());
}

}  // namespace
}  // namespace uroce::daemon
