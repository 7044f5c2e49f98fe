// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/kept.h"

#include <sys/resource.h>

#include "kmod-shim/preload/raw.h"

// The kernel's table of descriptors grows to the highest number: high, but not without end.
static const uint64_t highest_base = 16384;

static long base_number(void) {
  struct rlimit limit;
  if (RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0) return 256;
  const uint64_t base = limit.rlim_cur / 4 * 3;
  return (long)(base < highest_base ? base : highest_base);
}

struct kept kept_take(int fd) {
  struct kept kept = {.fd = fd};
  struct stat st;
  if (raw_fstat(fd, &st) != 0) return kept;
  const int high = raw_fcntl(fd, F_DUPFD_CLOEXEC, base_number());
  if (high >= 0) {
    raw_close(fd);
    kept.fd = high;
  }
  kept.device = st.st_dev;
  kept.inode = st.st_ino;
  return kept;
}

bool kept_is_there(const struct kept* kept) {
  struct stat st;
  return kept->inode != 0 && raw_fstat(kept->fd, &st) == 0 && st.st_ino == kept->inode &&
         st.st_dev == kept->device;
}

void kept_drop(struct kept* kept) {
  if (kept_is_there(kept)) raw_close(kept->fd);
  kept->inode = 0;
}
