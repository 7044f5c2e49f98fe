// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which process this is: memory that fork() clears, and what follows from it.
#ifndef UROCE_PRELOAD_PROCESS_H
#define UROCE_PRELOAD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "kmod-shim/preload/lock.h"
#include "kmod-shim/preload/world.h"

// All zero at the start of the program and in the child of a fork: locks that another thread of the parent
// held are free there.
struct process_state {
  _Atomic uint32_t generation;
  _Atomic int pid;
  struct lock descriptors;  // claiming and sweeping records
  struct lock world;        // guards what follows
  struct world cached;
};

struct process_state* process_state(void);

// Differs between a process and its forked children. What carries another generation than the caller's
// belongs to an ancestor.
uint32_t process_generation(void);

// The caller runs in memory that is another process's (vfork, CLONE_VM): its descriptor numbers say nothing
// about that one's.
bool process_is_borrowed(void);

#endif
