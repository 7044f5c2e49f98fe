// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A command as the program wrote it, and how it travels to uroced and back.
#ifndef UROCE_PRELOAD_COMMAND_H
#define UROCE_PRELOAD_COMMAND_H

#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmod-shim/preload/connection.h"

enum { COMMAND_PATCH_MAX = 128 };

struct command {
  const void* bytes;
  size_t count;
  uint32_t number;
  bool extended;
  size_t payload;     // offset of the core request in `bytes`
  uint64_t response;  // address, 0: none
  size_t response_room;
};

// 0 or a negative errno.
int command_parse(const void* bytes, size_t count, struct command* out);
// Copies the first `length` bytes of the core request; false: it is shorter.
bool command_request(const struct command* command, void* out, size_t length);

// Sends the command and waits for its reply. `head`, COMMAND_PATCH_MAX bytes at most, stands for the first
// `head_length` bytes of it. 0 or a negative errno. The lock `commands` is held.
int command_exchange(struct connection* connection, int fd, const struct command* command, const void* head,
                     size_t head_length, struct reply* reply);
// Stores the reply where the program wants it, as much as it has room for.
void command_respond(const struct command* command, const struct reply* reply);

#endif
