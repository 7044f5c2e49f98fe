// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Starting, being asked, stopping.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"
#include "tools/uroced/process_scan.h"

namespace uroce::daemon {
namespace {

namespace fs = std::filesystem;

class Daemon : public InNamespace {};

TEST_F(Daemon, version_and_help) {
  std::string output;
  EXPECT_EQ(run_program({UROCED, "--version"}, &output), 0);
  EXPECT_NE(output.find(UROCE_VERSION), std::string::npos);
  EXPECT_EQ(run_program({UROCED, "--help"}, &output), 0);
  EXPECT_NE(run_program({UROCED}), 0) << "it does not start by accident";
}

TEST_F(Daemon, autostart_returns_when_it_listens_and_stop_ends_it) {
  std::string output;
  ASSERT_EQ(autostart(&output), 0) << output;
  EXPECT_EQ(output, "");
  const auto told = status();
  EXPECT_TRUE(told.value("ok", false)) << told;
  EXPECT_EQ(told["version"], UROCE_VERSION);
  EXPECT_EQ(told["netns"], own_netns_inode());
  EXPECT_EQ(told["uid"], geteuid());
  const std::string tree = told["tree"];
  EXPECT_TRUE(fs::exists(tree + "/sys/class/infiniband_verbs/abi_version"));
  EXPECT_TRUE(admin({{"command", "stop"}}).value("ok", false));
  EXPECT_TRUE(becomes_true([&] { return !process_lives(to_end_[0]) && !process_lives(to_end_[1]); }));
  EXPECT_FALSE(fs::exists(tree));
}

TEST_F(Daemon, two_starters_race_and_both_are_content) {
  pid_t starters[4];
  for (pid_t& starter : starters) {
    starter = fork();
    if (starter == 0) {
      execl(UROCED, UROCED, "--autostart", nullptr);
      _exit(127);
    }
  }
  for (const pid_t starter : starters) {
    int result = -1;
    waitpid(starter, &result, 0);
    EXPECT_EQ(result, 0);
  }
  EXPECT_TRUE(status().value("ok", false));
  // Each would have its own keeper; there is one.
  std::string output;
  run_program({"sh", "-c",
               "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = uroced ] && "
               "[ \"$(readlink $p/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ] && echo $p; done"},
              &output);
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
}

TEST_F(Daemon, inherits_nothing_of_its_starter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // not close-on-exec
  ASSERT_EQ(autostart(), 0);
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the daemon holds our pipe open";
  close(ends[0]);
  const std::string proc = "/proc/" + std::to_string(keeper());
  EXPECT_EQ(fs::read_symlink(proc + "/cwd"), "/");
  EXPECT_EQ(fs::read_symlink(proc + "/fd/1"), "/dev/null");
  EXPECT_NE(getsid(keeper()), getsid(0));
}

TEST_F(Daemon, starts_from_a_program_without_standard_streams) {
  const pid_t starter = fork();
  if (starter == 0) {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    execl(UROCED, UROCED, "--autostart", nullptr);
    _exit(127);
  }
  int result = -1;
  waitpid(starter, &result, 0);
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(status().value("ok", false));
}

TEST_F(Daemon, in_the_foreground_it_logs_and_leaves_when_told) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t daemon = fork();
  if (daemon == 0) {
    dup2(ends[1], 2);
    execl(UROCED, UROCED, "--foreground", nullptr);
    _exit(127);
  }
  close(ends[1]);
  ASSERT_TRUE(becomes_true([&] { return status().value("ok", false); }));
  EXPECT_EQ(keeper(), daemon) << "a service manager knows the process it started";
  kill(daemon, SIGTERM);
  int result = -1;
  waitpid(daemon, &result, 0);
  EXPECT_EQ(result, 0);
  std::string output;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  EXPECT_NE(output.find("leaving"), std::string::npos) << output;
}

TEST_F(Daemon, a_start_that_fails_says_why) {
  std::string output;
  // No directory anywhere that could stand for /sys.
  const int status = run_program(
      {"unshare", "-m", "sh", "-c",
       "exec 9< " UROCED "; for d in /run /tmp /dev/shm; do mount -t tmpfs -o ro none $d || exit 77; done; "
       "unset XDG_RUNTIME_DIR; cd /; exec /proc/self/fd/9 --autostart"},
      &output);
  if (status == 77) GTEST_SKIP() << "cannot mount here: " << output;
  EXPECT_EQ(status, 1) << output;
  EXPECT_NE(output.find("/run/uroce-"), std::string::npos) << output;
  EXPECT_NE(output.find("Read-only file system"), std::string::npos) << output;
  DaemonClient client;
  EXPECT_FALSE(client.connect());
}

TEST_F(Daemon, world_tells_where_things_are_and_hangs_up) {
  ASSERT_EQ(autostart(), 0);
  DaemonClient client;
  ASSERT_TRUE(client.connect());
  const auto told = client.hello(UROCE_ROLE_WORLD);
  EXPECT_EQ(told.status, 0);
  EXPECT_EQ(told.reply.pid, static_cast<uint32_t>(worker()));
  EXPECT_TRUE(fs::is_directory(std::string(told.reply.tree) + "/dev/infiniband"));
  char byte;
  EXPECT_EQ(recv(client.descriptor(), &byte, 1, 0), 0);
}

TEST_F(Daemon, roles_that_are_not_there) {
  ASSERT_EQ(autostart(), 0);
  for (const auto& [role, status] :
       {std::pair<uint32_t, int>{99, EINVAL}, {UROCE_ROLE_UVERBS, ENODEV}, {UROCE_ROLE_BROKER, ENOENT}}) {
    DaemonClient client;
    ASSERT_TRUE(client.connect());
    const auto told = client.hello(role);
    EXPECT_EQ(told.status, status) << role;
    EXPECT_NE(std::string(told.reply.text), "");
  }
}

TEST_F(Daemon, admin_answers_nonsense_with_a_sentence) {
  ASSERT_EQ(autostart(), 0);
  for (const char* text :
       {"", "{", "[]", "null", "{\"command\":7}", "{\"command\":\"dance\"}", "{\"command\":\"link-set\"}",
        "{\"command\":\"link-add\"}", "{\"command\":\"link-delete\",\"device\":[]}"}) {
    DaemonClient client;
    ASSERT_TRUE(client.connect());
    ASSERT_EQ(client.hello(UROCE_ROLE_ADMIN).status, 0);
    const auto answer = client.request(UROCE_MSG_ADMIN, std::as_bytes(std::span(text, strlen(text))));
    const auto told =
        nlohmann::json::parse(reinterpret_cast<const char*>(answer.payload.data()),
                              reinterpret_cast<const char*>(answer.payload.data() + answer.payload.size()));
    EXPECT_FALSE(told.value("ok", true)) << text;
    EXPECT_NE(told.value("error", ""), "") << text;
  }
  EXPECT_TRUE(admin({{"command", "log"}}).value("ok", false));
  EXPECT_TRUE(admin({{"command", "doctor-facts"}}).contains("rmem_max"));
}

TEST_F(Daemon, garbage_on_the_socket_ends_that_connection_only) {
  ASSERT_EQ(autostart(), 0);
  const pid_t before = worker();
  unsigned seed = 1;
  for (int i = 0; i < 300; ++i) {
    DaemonClient client;
    ASSERT_TRUE(client.connect());
    std::vector<std::byte> bytes(static_cast<size_t>(rand_r(&seed)) % 300);
    for (auto& b : bytes) b = static_cast<std::byte>(rand_r(&seed));
    if (i % 3 == 0) {
      send(client.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    } else {
      if (i % 3 == 1) client.hello(UROCE_ROLE_ADMIN);
      client.send(static_cast<uint16_t>(rand_r(&seed) % 8), 2, bytes);
    }
  }
  EXPECT_EQ(worker(), before);
}

TEST_F(Daemon, another_protocol_version_is_named) {
  ASSERT_EQ(autostart(), 0);
  DaemonClient client;
  ASSERT_TRUE(client.connect());
  const uroce_msg header{UROCE_MSG_MAGIC, 7, UROCE_MSG_HELLO, 1, 0};
  ASSERT_EQ(send_message(client.descriptor(), header, {}, {}), Sent::yes);
  const auto message = client.receive();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->header.status, EPROTO);
  uroce_hello_reply told;
  ASSERT_EQ(message->payload.size(), sizeof told);
  std::memcpy(&told, message->payload.data(), sizeof told);
  EXPECT_NE(std::string(told.text).find("7"), std::string::npos) << told.text;
}

TEST_F(Daemon, a_client_that_never_reads_is_cut_off_and_others_go_on) {
  ASSERT_EQ(autostart(), 0);
  DaemonClient deaf;
  ASSERT_TRUE(deaf.connect());
  ASSERT_EQ(deaf.hello(UROCE_ROLE_ADMIN).status, 0);
  const std::string text = "{\"command\":\"status\"}";
  int sent = 0;
  ASSERT_TRUE(becomes_true([&] {
    while (deaf.send(UROCE_MSG_ADMIN, static_cast<uint32_t>(++sent + 1), std::as_bytes(std::span(text)))) {
    }
    return status().value("clients", 99) == 1;
  })) << "after "
      << sent << " requests";
}

}  // namespace
}  // namespace uroce::daemon
