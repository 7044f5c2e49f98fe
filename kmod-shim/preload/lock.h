// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A lock for cold paths that lives in memory which is zero at first. It knows its owner, so that a signal
// handler which interrupts the owner gets a refusal instead of waiting for itself for ever.
#ifndef UROCE_PRELOAD_LOCK_H
#define UROCE_PRELOAD_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
  _Atomic uint32_t state;  // 0 free, 1 held, 2 held and waited for
  _Atomic uintptr_t owner;
};

// False: this thread has it already.
bool lock_take(struct lock* lock);
void lock_give(struct lock* lock);

#endif
