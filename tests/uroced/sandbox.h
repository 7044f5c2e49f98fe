// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A network namespace and a daemon of its own for one test; nothing of either is left behind.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace uroce::daemon {

// Exit status of a program, -1 when it could not be run. Its output goes to `output` when given.
int run_program(const std::vector<std::string>& words, std::string* output = nullptr);
// Polls until `true_now` holds; false after `seconds`.
bool becomes_true(const std::function<bool()>& true_now, double seconds = 10);
bool process_lives(pid_t pid);  // zombies do not

class InNamespace : public ::testing::Test {
 protected:
  void SetUp() override;     // skips where a network namespace cannot be made
  void TearDown() override;  // ends the daemon

  // Starts it as a program would; its exit status.
  int autostart(std::string* output = nullptr);
  // Autostarted, lo up, with the link ur0 on lo.
  void start_with_device();
  nlohmann::json admin(const nlohmann::json& request);
  nlohmann::json status() { return admin({{"command", "status"}}); }
  pid_t worker() { return status().value("pid", 0); }
  pid_t keeper() { return status().value("keeper_pid", 0); }

  std::vector<pid_t> to_end_;  // daemon processes that were seen
};

}  // namespace uroce::daemon
