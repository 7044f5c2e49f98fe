// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Descriptors that the stand-in keeps for itself, at high numbers, out of the way of programs that count on
// low ones. A program may close them (closefrom) and get their numbers for files of its own: so each use
// checks first.
#ifndef UROCE_PRELOAD_KEPT_H
#define UROCE_PRELOAD_KEPT_H

#include <stdbool.h>
#include <stdint.h>

struct kept {
  int fd;
  uint64_t device, inode;  // of the socket; inode 0: none
};

// Moves `fd` up; when that fails it is kept where it is.
struct kept kept_take(int fd);
bool kept_is_there(const struct kept* kept);
// Closes it, if it is still there.
void kept_drop(struct kept* kept);

#endif
