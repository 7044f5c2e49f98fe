// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What uroced of the caller's network namespace has to offer: the directory that stands for /sys and /dev,
// and the netlink port. Asked for when somebody wants it, remembered for a second or until the thread changes
// namespace or user; what root was told is kept, by a program that gives up root, while the tree exists.
#ifndef UROCE_PRELOAD_WORLD_H
#define UROCE_PRELOAD_WORLD_H

#include <stdbool.h>
#include <stdint.h>

struct world {
  uint64_t asked_ms;      // CLOCK_MONOTONIC; 0: never
  uint64_t netns;         // inode of the namespace it is about
  uint32_t euid;          // of the asker
  uint32_t daemon_name;   // uid in the daemon's socket name, or DAEMON_COMMON_NAME
  uint32_t daemon_uid;    // whose it is
  uint32_t netlink_port;  // 0: it serves none
  int error;              // 0, or why there is no world: ENOENT none, EPERM the daemon is another user's
  uint32_t tree_length;
  char tree[192];
  char refusal[384];  // EPERM: a sentence about that
};

// False: there is no world, out->error says why. Starts uroced when it is not there. errno stays as it is.
bool world_get(struct world* out);
// The same, but asks anew. Without an answer what was known stays, while its tree exists.
bool world_ask(struct world* out);

#endif
