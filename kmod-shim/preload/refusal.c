// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/refusal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#include "kmod-shim/preload/raw.h"

void refusal_tell(const char* sentence) {
  static _Atomic bool told;
  if (sentence[0] == '\0' || atomic_exchange(&told, true)) return;
  const struct iovec parts[] = {{.iov_base = (void*)"uroce: ", .iov_len = 7},
                                {.iov_base = (void*)sentence, .iov_len = strlen(sentence)},
                                {.iov_base = (void*)"\n", .iov_len = 1}};
  RAW(SYS_writev, STDERR_FILENO, parts, 3);
}
