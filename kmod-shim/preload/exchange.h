// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Requests to uroced over the connection of one open device: one at a time, each with its answer.
#ifndef UROCE_PRELOAD_EXCHANGE_H
#define UROCE_PRELOAD_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "kmod-shim/preload/lock.h"

enum { EXCHANGE_REPLY_MAX = 4096, EXCHANGE_PARTS_MAX = 3 };

// Zero is a valid start.
struct exchange {
  struct lock commands;  // held from a request until its reply
  uint32_t seq;
  _Atomic bool gone;  // every command answers EIO
};

struct reply {
  uint32_t length;
  int program_end;  // descriptors that came along, or -1
  int far_end;
  _Alignas(8) char bytes[EXCHANGE_REPLY_MAX];
};

// Sends a message of type `type` made of the parts, and waits for its reply, or not longer than `timeout_ms`
// for each message (< 0: for ever). 0; what uroced answered, negative; or a negative errno of ours: EIO
// uroced or the device has left, EFAULT a part cannot be read. `reply` has descriptors only after 0, but its
// bytes after uroced's refusal too. The lock is held.
int exchange(struct exchange* state, int fd, uint32_t type, const struct iovec* parts, int count,
             struct reply* reply, int timeout_ms);

#endif
