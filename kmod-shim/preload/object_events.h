// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Commands that make or end an object with events: the stand-in delivers events, so it must see them pass.
#ifndef UROCE_PRELOAD_OBJECT_EVENTS_H
#define UROCE_PRELOAD_OBJECT_EVENTS_H

#include "kmod-shim/preload/command.h"
#include "kmod-shim/preload/connection.h"

struct object_change {
  enum object_kind kind;  // of the object that the command makes or ends; 0: none
  bool ends;
  uint32_t handle;            // ends
  uint64_t user_handle;       // makes
  struct queue_name channel;  // makes a CQ
  // What uroced gets in place of the first bytes of the command: it knows no completion channels.
  char head[COMMAND_PATCH_MAX];
  size_t head_length;
};

// 0, or the negative errno that the command is answered with. The lock `commands` is held, here and below.
int object_before(struct connection* connection, const struct command* command, struct object_change* out);
// The command has succeeded. Puts the numbers of delivered events into the reply to a DESTROY, after taking
// back what nobody has read.
void object_after(struct connection* connection, const struct object_change* change, struct reply* reply);

#endif
