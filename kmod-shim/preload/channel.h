// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef UROCE_PRELOAD_CHANNEL_H
#define UROCE_PRELOAD_CHANNEL_H

#include "kmod-shim/preload/command.h"
#include "kmod-shim/preload/connection.h"

// CREATE_COMP_CHANNEL: made here, uroced never hears of it. The command's length, or a negative errno.
long channel_create(struct connection* connection, const struct command* command);

// Another async queue, for an imported context: a descriptor on which nothing ever comes, as all objects'
// events go to the queue of the context that made them. The descriptor, or a negative errno.
int channel_create_async(struct connection* connection);

#endif
