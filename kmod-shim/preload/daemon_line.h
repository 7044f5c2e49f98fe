// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A connection to uroced: finding it, telling it from a stranger, introducing ourselves.
#ifndef UROCE_PRELOAD_DAEMON_LINE_H
#define UROCE_PRELOAD_DAEMON_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "kmod-shim/uapi/uroce_daemon.h"

#define DAEMON_COMMON_NAME 0xffffffffu  // in the place of a uid

// A connected, close-on-exec socket at the lowest free number, or a negative errno. ECONNREFUSED: nobody has
// the name. EPERM: its owner is neither root nor `euid`.
int daemon_connect(uint32_t name_uid, uint32_t euid);
// The same with any owner.
int daemon_connect_to(uint32_t name_uid, struct ucred* owner);
// Whether the owner is root or the asker: in a user namespace one number stands for all whom it does not
// know.
bool daemon_is_trusted(uint32_t owner_uid, uint32_t euid);
bool daemon_users_are_known(void);

// HELLO and its answer. 0, a positive errno that the daemon answered, or a negative one of ours.
int daemon_hello(int fd, uint32_t role, uint32_t argument, struct uroce_hello_reply* reply);
int daemon_hello_within(int fd, uint32_t role, uint32_t argument, struct uroce_hello_reply* reply,
                        int timeout_ms);

// Waits until `events` may happen on the socket, whatever signals arrive. 0, or -ETIMEDOUT (`timeout_ms` < 0:
// never).
int daemon_wait(int fd, short events, int timeout_ms);

#endif
