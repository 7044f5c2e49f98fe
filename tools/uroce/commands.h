// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One function per command of the command line. They print, and return the exit status: 0, 1 when what was
// asked for did not work, 3 when no daemon runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace uroce::cli {

constexpr int kFailed = 1, kUsage = 2, kNotRunning = 3;

void complain(const std::string& sentence);  // "uroce: ..." on stderr

// Becomes the program; returns only when it cannot: 126, or 127 when there is no such program.
int run_command(const std::vector<std::string>& words);

int print_environment(bool unset);

int show_status(bool as_json);
int show_log();

// `program`: also says whether that one can be served. Returns 1 when something does not work.
int show_doctor(bool as_json, const std::string& program);

int stop_daemon(bool everywhere);

struct LinkSettings {
  std::optional<std::string> transport;
  std::optional<unsigned> min_timeout_ms;
};
int add_link(const std::string& device, const std::string& netdev);
int delete_link(const std::string& device);
int set_link(const std::string& device, const LinkSettings& settings);

// `root`: the directory that stands for /.
int activate(const std::string& root);
int deactivate(const std::string& root);

}  // namespace uroce::cli
