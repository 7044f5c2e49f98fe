// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One thing that `uroce doctor` has looked at.
#pragma once

#include <string>
#include <vector>

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
// The daemon, the UDP port, the devices.
void check_daemon(std::vector<Check>& out);

}  // namespace uroce::cli
