// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/next.h"

#include <dlfcn.h>
#include <errno.h>

#include "kmod-shim/preload/process.h"

extern struct next_function __start_uroce_next[] __attribute__((visibility("hidden")));
extern struct next_function __stop_uroce_next[] __attribute__((visibility("hidden")));

void* next_find(struct next_function* function) {
  const int saved = errno;
  void* address = dlsym(RTLD_NEXT, function->name);
  __atomic_store_n(&function->address, address, __ATOMIC_RELAXED);
  errno = saved;
  return address;
}

// dlsym takes the loader's lock, which a signal handler or the child of a fork must not wait for: hence all
// of them now.
__attribute__((constructor)) static void find_all(void) {
  for (struct next_function* f = __start_uroce_next; f < __stop_uroce_next; ++f) next_find(f);
  process_generation();
}
