// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// System calls that the stand-in makes for its own ends: no wrapper of ours or of anybody else sees them, and
// none is a cancellation point. They return what the kernel does: a negative errno for an error; errno stays
// as it is.
#ifndef UROCE_PRELOAD_RAW_H
#define UROCE_PRELOAD_RAW_H

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RAW(...)                                       \
  ({                                                   \
    int raw_saved_errno_ = errno;                      \
    long raw_result_ = syscall(__VA_ARGS__);           \
    if (raw_result_ < 0) raw_result_ = -(long)(errno); \
    errno = raw_saved_errno_;                          \
    raw_result_;                                       \
  })

static inline int raw_close(int fd) {
  return (int)RAW(SYS_close, fd);
}
static inline int raw_fstat(int fd, struct stat* out) {
  return (int)RAW(SYS_fstat, fd, out);
}
static inline int raw_stat_at(int dirfd, const char* path, struct stat* out, int flags) {
  return (int)RAW(SYS_newfstatat, dirfd, path, out, flags);
}
static inline int raw_fcntl(int fd, int command, long argument) {
  return (int)RAW(SYS_fcntl, fd, command, argument);
}
static inline int raw_socket(int family, int type, int protocol) {
  return (int)RAW(SYS_socket, family, type, protocol);
}
static inline long raw_sendmsg(int fd, const struct msghdr* message, int flags) {
  return RAW(SYS_sendmsg, fd, message, flags);
}
static inline long raw_recvmsg(int fd, struct msghdr* message, int flags) {
  return RAW(SYS_recvmsg, fd, message, flags);
}
static inline int raw_pid(void) {
  return (int)RAW(SYS_getpid);
}

#endif
