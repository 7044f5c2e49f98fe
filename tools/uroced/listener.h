// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The daemon's abstract names in this network namespace: taking them, and finding out who has them.
#pragma once

#include <sys/types.h>

#include <string>

#include "tools/uroced/fd.h"

namespace uroce::daemon {

// Listening sockets. Who has the common name is the daemon of the namespace; the other one is for the user's
// own programs.
struct Names {
  Fd common, own;
};

enum class Listen {
  listening,  // `out` has the sockets
  served,     // a daemon of our uid has the names and lives: nothing to do
  refused,    // another user's daemon is in use, or his process has a name; `why` says whose
  failed,     // `why` says what
};

// Another user's daemon that nobody needs is asked to make way.
Listen listen_as(uid_t uid, Names& out, std::string& why);

// Connects to the daemon of `uid`; its peer credentials are the caller's to check.
Fd connect_to_daemon(uid_t uid);

}  // namespace uroce::daemon
