// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Keeps handlers away while the thread holds something that a handler, or a longjmp out of one, would leave
// broken. Signals that report a fault of this very thread stay open: blocked, they would kill the program.
#ifndef UROCE_PRELOAD_SIGNALS_H
#define UROCE_PRELOAD_SIGNALS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "kmod-shim/preload/raw.h"

static inline uint64_t signals_block(void) {
  const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  uint64_t blocked = ~UINT64_C(0), before = 0;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; ++i) blocked &= ~(UINT64_C(1) << (faults[i] - 1));
  RAW(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof before);
  return before;
}

static inline void signals_restore(uint64_t before) {
  RAW(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

#endif
