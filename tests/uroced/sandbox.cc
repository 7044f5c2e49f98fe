// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/uroced/sandbox.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/uroced/daemon_client.h"
#include "tools/uroced/fd.h"

namespace uroce::daemon {

int run_program(const std::vector<std::string>& words, std::string* output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    if (output != nullptr) output->append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool becomes_true(const std::function<bool()>& true_now, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!true_now()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

bool process_lives(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() && text[end + 2] != 'Z' && text[end + 2] != 'X';
}

void InNamespace::SetUp() {
  if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "cannot make a network namespace: " << std::strerror(errno);
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  ASSERT_EQ(ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
}

void InNamespace::TearDown() {
  if (DaemonClient client; client.connect()) admin({{"command", "stop"}});
  for (const pid_t pid : to_end_) {
    if (!becomes_true([&] { return !process_lives(pid); }, 5)) {
      ADD_FAILURE() << "process " << pid << " of the daemon is still there";
      kill(pid, SIGKILL);
    }
  }
}

int InNamespace::autostart(std::string* output) {
  const int status = run_program({UROCED, "--autostart"}, output);
  if (status == 0) this->status();
  return status;
}

void InNamespace::start_with_device() {
  std::string output;
  ASSERT_EQ(autostart(&output), 0) << output;
  const auto answer = admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "lo"}});
  ASSERT_TRUE(answer.value("ok", false)) << answer;
}

nlohmann::json InNamespace::admin(const nlohmann::json& request) {
  DaemonClient client;
  if (!client.connect() || client.hello(UROCE_ROLE_ADMIN).status != 0)
    return {{"ok", false}, {"error", "no daemon"}};
  const auto answer = client.admin(request);
  for (const char* member : {"pid", "keeper_pid"}) {
    if (const pid_t pid = answer.value(member, 0); pid != 0) to_end_.push_back(pid);
  }
  return answer;
}

}  // namespace uroce::daemon
