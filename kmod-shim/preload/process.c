// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/process.h"

#include <stddef.h>
#include <sys/mman.h>

#include "kmod-shim/preload/raw.h"

static struct process_state* _Atomic shared;
static _Atomic uint32_t newest_generation;  // copied by fork, so a child's generation is always a newer one

// For kernels that cannot clear memory at fork, and when there is no memory: the process id tells instead.
static struct process_state fallback;

static struct process_state* map_state(void) {
  const size_t bytes = sizeof(struct process_state);
  const long at = RAW(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (at < 0 && at > -4096) return &fallback;
  if (RAW(SYS_madvise, at, bytes, MADV_WIPEONFORK) != 0) {
    RAW(SYS_munmap, at, bytes);
    return &fallback;
  }
  return (struct process_state*)at;
}

struct process_state* process_state(void) {
  struct process_state* state = atomic_load_explicit(&shared, memory_order_acquire);
  if (state == NULL) {
    struct process_state* mine = map_state();
    if (atomic_compare_exchange_strong(&shared, &state, mine)) {
      state = mine;
    } else if (mine != &fallback) {
      RAW(SYS_munmap, mine, sizeof *mine);
    }
  }
  if (state == &fallback && atomic_load(&fallback.pid) != 0 && atomic_load(&fallback.pid) != raw_pid()) {
    fallback = (struct process_state){0};
  }
  return state;
}

uint32_t process_generation(void) {
  struct process_state* state = process_state();
  uint32_t generation = atomic_load_explicit(&state->generation, memory_order_acquire);
  if (generation != 0) return generation;
  atomic_store(&state->pid, raw_pid());
  const uint32_t mine = atomic_fetch_add(&newest_generation, 1) + 1;
  return atomic_compare_exchange_strong(&state->generation, &generation, mine) ? mine : generation;
}

bool process_is_borrowed(void) {
  process_generation();
  return atomic_load(&process_state()->pid) != raw_pid();
}
