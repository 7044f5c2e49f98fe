// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What belongs to one open /dev/infiniband/uverbsN. Zero is a valid start.
//
// Locks: exchange.commands is held while uroced answers; `events` for a few system calls that never wait, so
// that a kick does not wait for uroced. Order: commands, then events.
#ifndef UROCE_PRELOAD_CONNECTION_H
#define UROCE_PRELOAD_CONNECTION_H

#include <stdint.h>

#include "kmod-shim/preload/event_queue.h"
#include "kmod-shim/preload/exchange.h"
#include "kmod-shim/preload/lock.h"
#include "kmod-shim/preload/object_table.h"

struct connection {
  uint32_t minor;
  struct exchange exchange;

  struct lock events;  // guards what follows
  struct event_queue async;
  struct event_queues queues;  // completion channels, and async queues of imported contexts
  struct object_table objects;
};

// Gives back what it keeps; the socket is the program's.
void connection_drop(struct connection* connection);

#endif
