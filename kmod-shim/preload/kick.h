// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef UROCE_PRELOAD_KICK_H
#define UROCE_PRELOAD_KICK_H

#include "kmod-shim/preload/command.h"
#include "kmod-shim/preload/connection.h"

// The kick (kmod-shim/uapi/uroce_abi.h): puts one event into the queue that the program reads. Never waits,
// asks nobody. The command's length, or a negative errno; EAGAIN: the queue is full.
long kick(struct connection* connection, const struct command* command);

#endif
