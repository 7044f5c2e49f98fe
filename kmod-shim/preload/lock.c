// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/lock.h"

#include <linux/futex.h>

#include "kmod-shim/preload/raw.h"

// Its address names the thread. The stand-in is loaded at program start, so this costs no allocation.
static __thread char this_thread __attribute__((tls_model("initial-exec")));

bool lock_take(struct lock* lock) {
  const uintptr_t self = (uintptr_t)&this_thread;
  if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self) return false;
  uint32_t state = 0;
  if (!atomic_compare_exchange_strong(&lock->state, &state, 1)) {
    while (atomic_exchange(&lock->state, 2) != 0) {
      RAW(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
  }
  atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
  return true;
}

void lock_give(struct lock* lock) {
  atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
  if (atomic_exchange(&lock->state, 0) == 2)
    RAW(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
