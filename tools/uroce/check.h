// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One thing that `uroce doctor` has looked at.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/uroce/installation.h"

namespace uroce::cli {

enum class Verdict {
  works,
  note,     // nothing is wrong; good to know
  warning,  // it works, but slower or not for everything
  problem,  // something that uroce needs does not work
};

struct Check {
  std::string name;  // stable, for programs that read the JSON
  Verdict verdict;
  std::string what;  // what was found
  std::string todo;  // what to do about it; may be empty
};

const char* verdict_name(Verdict verdict);

// What the kernel and its settings let us do.
void check_kernel(std::vector<Check>& out);
// Files of uroce, libraries and programs; `program` may be empty.
void check_programs(const std::string& program, std::vector<Check>& out);
// Whether the directory that stands for /sys can be made, or has room; empty: no daemon runs.
Check check_tree(const std::string& of_daemon);
// 0, or the errno with which the kernel refuses the UDP port.
int try_to_bind(uint16_t port);
// For how many open devices a daemon has descriptors; 0: no daemon runs, one that we start would have our
// limit.
Check check_descriptors(uint64_t of_daemon);
bool module_is_loaded(const std::string& root);
// Where the kernel module is loaded: whether it is served, and found by programs. `root` is / but for tests;
// `status` of the daemon, nullptr: none runs.
void check_module(const std::string& root, const Installation& parts, const nlohmann::json* status,
                  std::vector<Check>& out);
// The daemon, the UDP port, what else a link takes up, the devices.
void check_daemon(std::vector<Check>& out);

}  // namespace uroce::cli
