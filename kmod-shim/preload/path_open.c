// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The calls that open a path.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/path.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/rdma_cm_open.h"
#include "kmod-shim/preload/uverbs_open.h"

// glibc's own checked variants; no header declares them.
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int dirfd, const char* path, int flags);
int __openat64_2(int dirfd, const char* path, int flags);

// What the tree's own file would do wrong: a placeholder is a device, and nobody writes to these attributes,
// root included.
static inline bool is_answered_here(const struct path* path, int flags) {
  if (__builtin_expect(!path->redirected, 1) || (flags & O_PATH) != 0) return false;
  return path->node != PATH_NODE_NONE || (flags & (O_ACCMODE | O_TRUNC)) != 0;
}

// A descriptor, or -1 with errno.
static int answer(const struct path* path, int flags) {
  int fd;
  if (path->node == PATH_NODE_NONE) {
    fd = -EACCES;
  } else if ((flags & O_DIRECTORY) != 0) {
    fd = -ENOTDIR;
  } else {
    fd = path->node == PATH_NODE_UVERBS ? uverbs_open(path->number) : rdma_cm_open();
  }
  if (fd < 0) {
    errno = -fd;
    return -1;
  }
  if ((flags & O_NONBLOCK) != 0) raw_fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
  if ((flags & O_CLOEXEC) == 0) raw_fcntl(fd, F_SETFD, 0);
  return fd;
}

static inline bool is_written(const struct path* path, const char* mode) {
  if (__builtin_expect(!path->redirected, 1) || (mode[0] == 'r' && strchr(mode, '+') == NULL)) return false;
  errno = EACCES;
  return true;
}

#define MODE_OF(flags)                    \
  ({                                      \
    mode_t mode_ = 0;                     \
    if (__OPEN_NEEDS_MODE(flags)) {       \
      va_list arguments_;                 \
      va_start(arguments_, flags);        \
      mode_ = va_arg(arguments_, mode_t); \
      va_end(arguments_);                 \
    }                                     \
    mode_;                                \
  })

#define OPEN(function)                                               \
  EXPORT int function(const char* given, int flags, ...) {           \
    const mode_t mode = MODE_OF(flags);                              \
    PATH_FOR(given);                                                 \
    if (is_answered_here(&path, flags)) return answer(&path, flags); \
    return NEXT(function)(name, flags, mode);                        \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(function)                                              \
  EXPORT int function(int dirfd, const char* given, int flags, ...) { \
    const mode_t mode = MODE_OF(flags);                               \
    PATH_FOR(given);                                                  \
    if (is_answered_here(&path, flags)) return answer(&path, flags);  \
    return NEXT(function)(dirfd, name, flags, mode);                  \
  }
OPENAT(openat)
OPENAT(openat64)

#define OPEN_CHECKED(function)                                       \
  EXPORT int function(const char* given, int flags) {                \
    PATH_FOR(given);                                                 \
    if (is_answered_here(&path, flags)) return answer(&path, flags); \
    return NEXT(function)(name, flags);                              \
  }
OPEN_CHECKED(__open_2)
OPEN_CHECKED(__open64_2)

#define OPENAT_CHECKED(function)                                     \
  EXPORT int function(int dirfd, const char* given, int flags) {     \
    PATH_FOR(given);                                                 \
    if (is_answered_here(&path, flags)) return answer(&path, flags); \
    return NEXT(function)(dirfd, name, flags);                       \
  }
OPENAT_CHECKED(__openat_2)
OPENAT_CHECKED(__openat64_2)

#define CREAT(function)                                                    \
  EXPORT int function(const char* given, mode_t mode) {                    \
    PATH_FOR(given);                                                       \
    if (is_answered_here(&path, O_WRONLY)) return answer(&path, O_WRONLY); \
    return NEXT(function)(name, mode);                                     \
  }
CREAT(creat)
CREAT(creat64)

#define FOPEN(function)                                        \
  EXPORT FILE* function(const char* given, const char* mode) { \
    PATH_FOR(given);                                           \
    if (is_written(&path, mode)) return NULL;                  \
    return NEXT(function)(name, mode);                         \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define FREOPEN(function)                                                    \
  EXPORT FILE* function(const char* given, const char* mode, FILE* stream) { \
    PATH_FOR(given);                                                         \
    return NEXT(function)(name, mode, stream);                               \
  }
FREOPEN(freopen)
FREOPEN(freopen64)

EXPORT DIR* opendir(const char* given) {
  PATH_FOR(given);
  return NEXT(opendir)(name);
}
