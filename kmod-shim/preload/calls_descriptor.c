// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Calls on descriptors of any kind: read, write, ioctl, and those that copy one.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kmod-shim/preload/descriptor.h"
#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/rdma_cm.h"
#include "kmod-shim/preload/uverbs.h"

enum { writev_max = 4096 };

static ssize_t as_call(long result) {
  if (result >= 0) return result;
  errno = (int)-result;
  return -1;
}

static long write_command(struct descriptor* record, int fd, const void* bytes, size_t count) {
  return record->kind == DESCRIPTOR_UVERBS ? uverbs_write(record, fd, bytes, count)
                                           : rdma_cm_write(record, fd, bytes, count);
}

// One command, whatever the parts are.
static long write_parts(struct descriptor* record, int fd, const struct iovec* parts, int count) {
  _Alignas(8) char whole[writev_max];
  size_t length = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > sizeof whole - length) return -EINVAL;
    memcpy(whole + length, parts[i].iov_base, parts[i].iov_len);
    length += parts[i].iov_len;
  }
  return write_command(record, fd, whole, length);
}

EXPORT ssize_t write(int fd, const void* bytes, size_t count) {
  struct descriptor* record = descriptor_of(fd);
  if (record == NULL) return NEXT(write)(fd, bytes, count);
  if (record->kind == DESCRIPTOR_NETLINK) return send(fd, bytes, count, 0);
  return as_call(write_command(record, fd, bytes, count));
}

EXPORT ssize_t writev(int fd, const struct iovec* parts, int count) {
  struct descriptor* record = descriptor_of(fd);
  if (record == NULL) return NEXT(writev)(fd, parts, count);
  if (record->kind == DESCRIPTOR_NETLINK) {
    const struct msghdr message = {.msg_iov = (struct iovec*)parts, .msg_iovlen = (size_t)count};
    return sendmsg(fd, &message, 0);
  }
  return as_call(write_parts(record, fd, parts, count));
}

// The device has nothing to read; the socket has, and it is not the program's.
EXPORT ssize_t read(int fd, void* bytes, size_t count) {
  const struct descriptor* record = descriptor_of(fd);
  if (record == NULL) return NEXT(read)(fd, bytes, count);
  return record->kind == DESCRIPTOR_NETLINK ? recv(fd, bytes, count, 0) : as_call(-EINVAL);
}

ssize_t __read_chk(int fd, void* bytes, size_t count, size_t room);

EXPORT ssize_t __read_chk(int fd, void* bytes, size_t count, size_t room) {
  if (descriptor_of(fd) == NULL || count > room) return NEXT(__read_chk)(fd, bytes, count, room);
  return read(fd, bytes, count);
}

EXPORT ssize_t readv(int fd, const struct iovec* parts, int count) {
  const struct descriptor* record = descriptor_of(fd);
  if (record == NULL) return NEXT(readv)(fd, parts, count);
  if (record->kind != DESCRIPTOR_NETLINK) return as_call(-EINVAL);
  struct msghdr message = {.msg_iov = (struct iovec*)parts, .msg_iovlen = (size_t)count};
  return recvmsg(fd, &message, 0);
}

EXPORT int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  struct descriptor* record = descriptor_of(fd);
  if (record == NULL || record->kind != DESCRIPTOR_UVERBS) return NEXT(ioctl)(fd, request, argument);
  return (int)as_call(uverbs_ioctl(record, request, argument));
}

EXPORT int dup(int fd) {
  const int copy = NEXT(dup)(fd);
  descriptor_duplicated(fd, copy);
  return copy;
}

EXPORT int dup2(int fd, int copy) {
  const int result = NEXT(dup2)(fd, copy);
  descriptor_duplicated(fd, result);
  return result;
}

EXPORT int dup3(int fd, int copy, int flags) {
  const int result = NEXT(dup3)(fd, copy, flags);
  descriptor_duplicated(fd, result);
  return result;
}

#define FCNTL(function)                                                                      \
  EXPORT int function(int fd, int command, ...) {                                            \
    va_list arguments;                                                                       \
    va_start(arguments, command);                                                            \
    void* argument = va_arg(arguments, void*);                                               \
    va_end(arguments);                                                                       \
    const int result = NEXT(function)(fd, command, argument);                                \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) descriptor_duplicated(fd, result); \
    return result;                                                                           \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
