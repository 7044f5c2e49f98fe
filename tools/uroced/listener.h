// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The daemon's abstract name in this network namespace: taking it, and finding out who has it.
#pragma once

#include <sys/types.h>

#include <string>

#include "tools/uroced/fd.h"

namespace uroce::daemon {

enum class Listen {
  listening,  // `out` is the socket
  served,     // a daemon of our uid has the name and lives: nothing to do
  squatted,   // another user's process has the name; `why` says whose
  failed,     // `why` says what
};

Listen listen_as(uid_t uid, Fd& out, std::string& why);

// Connects to the daemon of `uid`; its peer credentials are the caller's to check.
Fd connect_to_daemon(uid_t uid);

}  // namespace uroce::daemon
