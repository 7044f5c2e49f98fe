// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The program as a user runs it, with a daemon of its own in a network namespace of its own.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/uroce/temporary_directory.h"
#include "tests/uroced/sandbox.h"
#include "tools/uroced/fd.h"

namespace uroce::cli {
namespace {

using nlohmann::json;

class Command : public daemon::InNamespace {
 protected:
  void SetUp() override {
    for (const char* name : {"LD_PRELOAD", "RDMAV_DRIVERS", "UROCE_DAEMON"}) unsetenv(name);
    InNamespace::SetUp();
  }

  int uroce(std::vector<std::string> words) {
    words.insert(words.begin(), UROCE);
    output_.clear();
    return daemon::run_program(words, &output_);
  }

  int shell(const std::string& script) {
    output_.clear();
    return daemon::run_program({"sh", "-c", script, "sh", UROCE}, &output_);
  }

  bool says(const std::string& part) const { return output_.find(part) != std::string::npos; }

  std::string output_;
};

TEST_F(Command, run_hands_over_arguments_and_exit_status) {
  EXPECT_EQ(uroce({"run", "--", "sh", "-c", "printf '<%s>' \"$@\"; exit 7", "sh", "a b", "--json", "--"}), 7);
  EXPECT_EQ(output_, "<a b><--json><-->");
  EXPECT_EQ(uroce({"run", "printf", "%s", "-h"}), 0);
  EXPECT_EQ(output_, "-h");
}

TEST_F(Command, run_sets_the_environment_in_front_of_what_is_there) {
  EXPECT_EQ(shell("ASAN_OPTIONS=x=1 RDMAV_DRIVERS=other \"$1\" run -- env"), 0);
  EXPECT_TRUE(says("LD_PRELOAD=/")) << output_;
  EXPECT_TRUE(says("liburoce-preload.so\n"));
  EXPECT_TRUE(says("liburoce:other\n"));
  EXPECT_TRUE(says("ASAN_OPTIONS=x=1:verify_asan_link_order=0\n"));
  EXPECT_TRUE(says("UROCE_DAEMON=" UROCED "\n"));
}

TEST_F(Command, run_starts_the_daemon_and_does_not_hold_the_output) {
  EXPECT_EQ(uroce({"run", "true"}), 0);  // ends only when nobody has the pipe open
  EXPECT_EQ(output_, "");
  EXPECT_TRUE(status().value("ok", false));
}

TEST_F(Command, run_says_why_it_cannot) {
  EXPECT_EQ(uroce({"run", "--", "/no/such/program"}), 127);
  EXPECT_TRUE(says("cannot run /no/such/program"));
  EXPECT_EQ(uroce({"run", "--", "/tmp"}), 126);
  EXPECT_EQ(uroce({"run"}), 2);
  EXPECT_EQ(uroce({"run", "--"}), 2);
  EXPECT_EQ(uroce({"run", "--nonsense", "true"}), 2);
  EXPECT_EQ(uroce({"run", "--help"}), 0);
}

TEST_F(Command, run_warns_before_sudo) {
  TemporaryDirectory directory;
  directory.write("sudo", "#!/bin/sh\nexit 5\n", 0755);
  EXPECT_EQ(uroce({"run", directory.path("sudo")}), 5);
  EXPECT_TRUE(says("will not see uroce devices"));
}

TEST_F(Command, run_with_a_daemon_that_cannot_start_still_runs) {
  EXPECT_EQ(shell("UROCE_DAEMON=/no/such/daemon \"$1\" run -- echo done"), 0);
  EXPECT_TRUE(says("cannot start /no/such/daemon"));
  EXPECT_TRUE(says("done"));
}

TEST_F(Command, env_brings_a_shell_in_and_out) {
  const std::string script = R"sh(
      export LD_PRELOAD= RDMAV_DRIVERS=other
      eval "$("$1" env)"
      echo "in $LD_PRELOAD $RDMAV_DRIVERS"
      eval "$("$1" env --unset)"
      echo "out <$LD_PRELOAD> $RDMAV_DRIVERS <${UROCE_DAEMON-none}>")sh";
  EXPECT_EQ(shell(script), 0);
  EXPECT_TRUE(says("liburoce-preload.so ")) << output_;
  EXPECT_TRUE(says("liburoce:other"));
  EXPECT_TRUE(says("out <> other <none>")) << output_;
}

TEST_F(Command, status_without_a_daemon) {
  EXPECT_EQ(uroce({"status"}), 3);
  EXPECT_TRUE(says("no uroced runs"));
  EXPECT_EQ(uroce({"status", "--json"}), 3);
  EXPECT_EQ(json::parse(output_, nullptr, false).value("running", true), false);
}

TEST_F(Command, link_add_set_delete) {
  EXPECT_EQ(uroce({"link", "add", "ur3", "netdev", "lo"}), 0) << output_;
  EXPECT_EQ(uroce({"link", "set", "ur3", "transport", "udp", "min-timeout", "250"}), 0) << output_;
  EXPECT_EQ(uroce({"status", "--json"}), 0);
  const json device = json::parse(output_, nullptr, false).at("devices").at(0);
  EXPECT_EQ(device.at("name"), "ur3");
  EXPECT_EQ(device.at("transport"), "udp");
  EXPECT_EQ(device.at("min_timeout_ms"), 250);
  EXPECT_EQ(uroce({"status"}), 0);
  EXPECT_TRUE(says("ur3: ACTIVE on lo")) << output_;
  EXPECT_EQ(uroce({"log"}), 0);
  EXPECT_TRUE(says("ur3 on lo")) << output_;
  EXPECT_EQ(uroce({"link", "delete", "ur3"}), 0);
  EXPECT_EQ(uroce({"link", "delete", "ur3"}), 1);
  EXPECT_TRUE(says("there is no device 'ur3'"));
}

TEST_F(Command, link_errors_are_told) {
  EXPECT_EQ(uroce({"link", "set", "ur0", "transport", "udp"}), 3);
  EXPECT_EQ(uroce({"link", "add", "ur0", "netdev", "no-such-netdev"}), 1);
  EXPECT_TRUE(says("no-such-netdev")) << output_;
  EXPECT_EQ(uroce({"link", "add", "ur0", "on", "lo"}), 2);
  EXPECT_EQ(uroce({"link", "set", "ur0", "transport"}), 2);
  EXPECT_EQ(uroce({"link", "set", "ur0", "colour", "red"}), 2);
  for (const char* bad : {"-1", "60001", "soon", "", "5x"}) {
    EXPECT_EQ(uroce({"link", "set", "ur0", "min-timeout", bad}), 2) << bad;
  }
  EXPECT_EQ(uroce({"link", "add", "ur0", "netdev", "lo"}), 0);
  EXPECT_EQ(uroce({"link", "set", "ur0", "transport", "pigeon"}), 1);
}

TEST_F(Command, stop_ends_the_daemon_before_it_returns) {
  EXPECT_EQ(uroce({"link", "add", "ur0", "netdev", "lo"}), 0);
  const pid_t keeper_process = keeper();
  ASSERT_GT(keeper_process, 0);
  EXPECT_EQ(uroce({"stop"}), 0);
  EXPECT_FALSE(daemon::process_lives(keeper_process));
  EXPECT_EQ(uroce({"status"}), 3);
  EXPECT_EQ(uroce({"stop"}), 0) << "nothing runs, as asked for";
}

TEST_F(Command, a_stopped_daemon_is_named_with_what_to_do) {
  start_with_device();
  const pid_t stopped = worker();
  ASSERT_GT(stopped, 0);
  kill(stopped, SIGSTOP);
  for (const char* command : {"status", "stop", "log", "doctor"}) {
    EXPECT_EQ(uroce({command}), 1) << command;
    EXPECT_TRUE(says("process " + std::to_string(stopped) + " is stopped")) << command << ": " << output_;
    EXPECT_TRUE(says("kill -CONT " + std::to_string(stopped))) << output_;
  }
  kill(stopped, SIGCONT);
  EXPECT_EQ(uroce({"status"}), 0) << output_;
}

TEST_F(Command, a_daemon_that_does_not_accept_is_not_waited_for_without_end) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "uroce-" + std::to_string(geteuid());
  name.copy(address.sun_path + 1, name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  const daemon::Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(bind(listener.get(), at, bytes) == 0 && listen(listener.get(), 0) == 0);
  const daemon::Fd first(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(first.get(), at, bytes), 0);
  EXPECT_EQ(uroce({"status"}), 1);
  EXPECT_TRUE(says("does not accept connections")) << output_;
}

TEST_F(Command, a_process_that_does_not_accept_hides_no_daemon) {
  start_with_device();
  const std::string script = R"sh(
      exec python3 -c '
import os, socket, subprocess, sys
deaf = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
deaf.bind("\0uroce-61234")
deaf.listen(0)
first = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
first.connect("\0uroce-61234")
os.setgid(61234)
os.setuid(61234)
os.access(sys.argv[1], os.X_OK) or sys.exit(77)
sys.exit(subprocess.run([sys.argv[1], "status"]).returncode)' "$1")sh";
  const int status = shell(script);
  if (status == 77) GTEST_SKIP() << "other users cannot reach the build tree";
  EXPECT_EQ(status, 1) << output_;
  EXPECT_TRUE(says("belongs to uid 0 ")) << output_;
}

// In a process namespace of its own, since it would end the daemons of others who test at the same time.
TEST_F(Command, stop_all_reaches_every_namespace_of_every_user) {
  if (daemon::run_program({"unshare", "--pid", "--fork", "--mount-proc", "--net", "true"}) != 0) {
    GTEST_SKIP() << "no process namespace can be made here";
  }
  const std::string script = R"sh(
      ip link set lo up
      "$1" link add ur0 netdev lo || exit 10
      unshare --net sh -c 'ip link set lo up; sleep 1000 & exec setpriv --reuid 61234 --regid 61234 --clear-groups \
          "$1" link add ur1 netdev lo' sh "$1" || exit 77
      [ "$(pgrep -cx uroced)" = 2 ] || exit 11
      "$1" stop --all || exit 12
      ! pgrep uroced)sh";
  const int status = daemon::run_program(
      {"unshare", "--pid", "--fork", "--mount-proc", "--net", "sh", "-c", script, "sh", UROCE}, &output_);
  if (status == 77) GTEST_SKIP() << "other users cannot reach the build tree";
  EXPECT_EQ(status, 0) << output_;
}

TEST_F(Command, doctor_does_not_take_uroce_devices_for_the_machines_own) {
  start_with_device();
  uroce({"run", UROCE, "doctor"});
  EXPECT_FALSE(says("devices of its own: ur0")) << output_;
  EXPECT_TRUE(says("programs started from here see uroce devices")) << output_;
}

TEST_F(Command, doctor_json_has_a_shape_to_rely_on) {
  start_with_device();
  const int exit_status = uroce({"doctor", "--json", "sh"});
  const json report = json::parse(output_, nullptr, false);
  ASSERT_TRUE(report.is_object()) << output_;
  EXPECT_EQ(report.at("version"), UROCE_VERSION);
  EXPECT_EQ(report.at("healthy").get<bool>(), exit_status == 0);
  const std::set<std::string> verdicts = {"works", "note", "warning", "problem"};
  std::set<std::string> names;
  bool any_problem = false;
  for (const json& check : report.at("checks")) {
    names.insert(check.at("name").get<std::string>());
    EXPECT_TRUE(verdicts.contains(check.at("verdict").get<std::string>()));
    EXPECT_FALSE(check.at("what").get<std::string>().empty());
    any_problem = any_problem || check.at("verdict") == "problem";
  }
  EXPECT_EQ(any_problem, exit_status != 0);
  for (const char* name : {"kernel",
                           "network-namespaces",
                           "cap-net-admin",
                           "receive-buffers",
                           "udp-segmentation",
                           "port-steering",
                           "netlink",
                           "real-devices",
                           "memlock",
                           "files",
                           "stand-in",
                           "libibverbs",
                           "programs",
                           "environment",
                           "ld.so.preload",
                           "sudo",
                           "program",
                           "port-4791",
                           "daemon",
                           "devices",
                           "tree",
                           "descriptors"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const json& check : report.at("checks")) {
    for (const char* must_work : {"files", "stand-in", "port-4791", "daemon", "devices", "program", "netlink",
                                  "tree", "descriptors"}) {
      if (check.at("name") != must_work) continue;
      EXPECT_EQ(check.at("verdict"), "works") << check.dump();
    }
  }
}

TEST_F(Command, doctor_names_who_holds_the_port) {
  const std::string holder =
      "import socket,subprocess,sys\n"
      "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
      "s.bind(('0.0.0.0', 4791))\n"
      "r = subprocess.run([sys.argv[1], 'doctor'], capture_output=True, text=True)\n"
      "print(r.stdout)\n"
      "sys.exit(r.returncode)\n";
  EXPECT_EQ(daemon::run_program({"/usr/bin/python3", "-c", holder, UROCE}, &output_), 1);
  EXPECT_TRUE(says("UDP port 4791 is held by process")) << output_;
  EXPECT_TRUE(says("python3"));
}

TEST_F(Command, doctor_tries_the_directory_that_stands_for_sys) {
  EXPECT_EQ(uroce({"doctor"}), 0) << output_;
  EXPECT_TRUE(says("room for the files that stand for /sys in /")) << output_;
  EXPECT_FALSE(std::filesystem::exists("/run/uroce-0-0"));
  const std::string mount_all =
      "exec 9< \"$1\"; for d in /run /tmp /dev/shm; do mount -t tmpfs -o $0 none $d || exit 77; done; "
      "unset XDG_RUNTIME_DIR; cd /; exec /proc/self/fd/9 doctor";
  int status = daemon::run_program({"unshare", "-m", "sh", "-c", mount_all, "ro", UROCE}, &(output_ = ""));
  if (status == 77) GTEST_SKIP() << "cannot mount here: " << output_;
  EXPECT_EQ(status, 1);
  EXPECT_TRUE(says("PROBLEM  no place for the directory that stands for /sys")) << output_;
  EXPECT_TRUE(says("Read-only file system")) << output_;
  status = daemon::run_program({"unshare", "-m", "sh", "-c", mount_all, "size=64k", UROCE}, &(output_ = ""));
  EXPECT_EQ(status, 1);
  EXPECT_TRUE(says("No space left on device")) << output_;
}

TEST_F(Command, doctor_says_for_how_many_devices_there_are_descriptors) {
  EXPECT_EQ(shell("ulimit -n 1024; \"$1\" doctor"), 0) << output_;
  EXPECT_TRUE(
      says("warning  uroced may have 1024 descriptors (ulimit -Hn), enough for about 134 open devices"))
      << output_;
  EXPECT_EQ(shell("ulimit -n 1024; exec \"$1\" link add ur0 netdev lo"), 0);
  EXPECT_EQ(uroce({"doctor"}), 0) << output_;
  EXPECT_TRUE(says("enough for about 134 open devices")) << "the running daemon's, not ours: " << output_;
}

TEST_F(Command, doctor_tries_the_port) {
  const std::string hidden =
      ""
      "mount -t tmpfs none /proc || exit 77; exec python3 -c '"
      "import socket,subprocess,sys\n"
      "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
      "s.bind((\"0.0.0.0\", 4791))\n"
      "sys.exit(subprocess.run([sys.argv[1], \"doctor\"]).returncode)' \"$1\"";
  const int status = daemon::run_program({"unshare", "-m", "sh", "-c", hidden, "sh", UROCE}, &output_);
  if (status == 77) GTEST_SKIP() << "cannot mount here: " << output_;
  EXPECT_TRUE(says("UDP port 4791 cannot be had: Address already in use")) << output_;
}

TEST_F(Command, activate_wants_the_word_system) {
  TemporaryDirectory root;
  EXPECT_EQ(uroce({"activate", "--root", root.path()}), 2);
  EXPECT_EQ(uroce({"activate", "--system", "--root", root.path("missing")}), 2);
  EXPECT_EQ(uroce({"deactivate", "--system", "--root", root.path()}), 0);
}

TEST_F(Command, wrong_words_are_told) {
  EXPECT_EQ(uroce({}), 2);
  EXPECT_EQ(uroce({"nonsense"}), 2);
  EXPECT_EQ(uroce({"--version"}), 0);
  EXPECT_EQ(output_, std::string("uroce ") + UROCE_VERSION + "\n");
  EXPECT_EQ(uroce({"--help"}), 0);
  EXPECT_TRUE(says("uroce run -- rdma link add"));
}

}  // namespace
}  // namespace uroce::cli
