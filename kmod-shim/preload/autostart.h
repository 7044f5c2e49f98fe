// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Starting uroced from inside somebody else's program, which must not notice: no child that wait() finds, no
// SIGCHLD, no handler of its own run in the child, no descriptor passed on.
#ifndef UROCE_PRELOAD_AUTOSTART_H
#define UROCE_PRELOAD_AUTOSTART_H

#include <stdbool.h>

// True: a daemon listens now. Looked for at $UROCE_DAEMON only, when that is set, else beside the stand-in.
bool autostart_daemon(void);

#endif
