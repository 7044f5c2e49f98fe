// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Leaving the starter behind: no descriptor, session, directory, signal or limit of the program that happened
// to need us first.
#pragma once

#include <functional>
#include <string>

namespace uroce::daemon {

// Tells the waiting first process how it went; it exits with `status` and prints `text` when there is one.
using Announce = std::function<void(int status, const std::string& text)>;

// Forks twice. In the first process: waits for the announcement and returns its status. In the last one:
// calls `body` and exits with its result, never returns.
int daemonise(const std::function<int(const Announce&)>& body);

// What every daemon process starts from, in the foreground too.
void reset_process_state();

}  // namespace uroce::daemon
