// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The stat family, on paths and on our descriptors: both show the device, not the placeholder or the socket.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kmod-shim/preload/descriptor.h"
#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/path.h"

// Until glibc 2.33 stat() was an inline around these.
int __xstat(int version, const char* path, struct stat* out);
int __xstat64(int version, const char* path, struct stat64* out);
int __lxstat(int version, const char* path, struct stat* out);
int __lxstat64(int version, const char* path, struct stat64* out);
int __fxstat(int version, int fd, struct stat* out);
int __fxstat64(int version, int fd, struct stat64* out);
int __fxstatat(int version, int dirfd, const char* path, struct stat* out, int flags);
int __fxstatat64(int version, int dirfd, const char* path, struct stat64* out, int flags);

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout for both names");

// Newer kernels take NULL like "", whatever the declarations say.
static bool names_nothing(const char* path) {
  return path == NULL || path[0] == '\0';
}

static int after_path(int result, const struct path* path, void* out) {
  if (result == 0) path_disguise(path, out);
  return result;
}

static int after_descriptor(int result, int fd, void* out) {
  struct stat* st = out;
  if (result == 0 && S_ISSOCK(st->st_mode)) descriptor_disguise(fd, st);
  return result;
}

#define STAT(function, type)                                  \
  EXPORT int function(const char* given, struct type* out) {  \
    PATH_FOR(given);                                          \
    return after_path(NEXT(function)(name, out), &path, out); \
  }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define FSTAT(function, type)                                  \
  EXPORT int function(int fd, struct type* out) {              \
    return after_descriptor(NEXT(function)(fd, out), fd, out); \
  }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

#define FSTATAT(function, type)                                                                            \
  EXPORT int function(int dirfd, const char* given, struct type* out, int flags) {                         \
    PATH_FOR(given);                                                                                       \
    const int result = NEXT(function)(dirfd, name, out, flags);                                            \
    if ((flags & AT_EMPTY_PATH) != 0 && names_nothing(given)) return after_descriptor(result, dirfd, out); \
    return after_path(result, &path, out);                                                                 \
  }
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

#define XSTAT(function, type)                                             \
  EXPORT int function(int version, const char* given, struct type* out) { \
    PATH_FOR(given);                                                      \
    return after_path(NEXT(function)(version, name, out), &path, out);    \
  }
XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat, stat)
XSTAT(__lxstat64, stat64)

#define FXSTAT(function, type)                                          \
  EXPORT int function(int version, int fd, struct type* out) {          \
    return after_descriptor(NEXT(function)(version, fd, out), fd, out); \
  }
FXSTAT(__fxstat, stat)
FXSTAT(__fxstat64, stat64)

#define FXSTATAT(function, type)                                                                           \
  EXPORT int function(int version, int dirfd, const char* given, struct type* out, int flags) {            \
    PATH_FOR(given);                                                                                       \
    const int result = NEXT(function)(version, dirfd, name, out, flags);                                   \
    if ((flags & AT_EMPTY_PATH) != 0 && names_nothing(given)) return after_descriptor(result, dirfd, out); \
    return after_path(result, &path, out);                                                                 \
  }
FXSTATAT(__fxstatat, stat)
FXSTATAT(__fxstatat64, stat64)

static void disguise_statx(const struct stat* st, struct statx* out) {
  out->stx_mode = (uint16_t)st->st_mode;
  out->stx_rdev_major = major(st->st_rdev);
  out->stx_rdev_minor = minor(st->st_rdev);
  out->stx_size = 0;
}

EXPORT int statx(int dirfd, const char* given, int flags, unsigned mask, struct statx* out) {
  PATH_FOR(given);
  const int result = NEXT(statx)(dirfd, name, flags, mask, out);
  if (result != 0) return result;
  struct stat st = {.st_mode = out->stx_mode};
  if (path.node != PATH_NODE_NONE) {
    path_disguise(&path, &st);
    disguise_statx(&st, out);
  } else if ((flags & AT_EMPTY_PATH) != 0 && names_nothing(given) && descriptor_disguise(dirfd, &st)) {
    disguise_statx(&st, out);
  }
  return 0;
}
