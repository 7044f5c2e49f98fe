// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Socket calls: sockets of the RDMA netlink family are made and led elsewhere, all others pass.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "kmod-shim/preload/descriptor.h"
#include "kmod-shim/preload/netlink.h"
#include "kmod-shim/preload/next.h"

static struct descriptor* netlink_of(int fd) {
  struct descriptor* record = descriptor_of(fd);
  return record != NULL && record->kind == DESCRIPTOR_NETLINK ? record : NULL;
}

EXPORT int socket(int family, int type, int protocol) {
  if (__builtin_expect(family == AF_NETLINK && protocol == NETLINK_RDMA, 0)) {
    const int fd = netlink_open(type);
    if (fd >= 0) return fd;
    if (fd != -ENOENT) {
      errno = -fd;
      return -1;
    }
  }
  return NEXT(socket)(family, type, protocol);
}

EXPORT int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return NEXT(connect)(fd, address, length);
  struct sockaddr_nl room;
  const struct sockaddr* to = netlink_destination(record, address.__sockaddr__, &length, &room);
  return NEXT(connect)(fd, (__CONST_SOCKADDR_ARG){.__sockaddr__ = to}, length);
}

EXPORT int getsockopt(int fd, int level, int option, void* value, socklen_t* length) {
  const int result = NEXT(getsockopt)(fd, level, option, value, length);
  if (result == 0 && level == SOL_SOCKET && option == SO_PROTOCOL && *length == sizeof(int) &&
      netlink_of(fd) != NULL) {
    const int protocol = NETLINK_RDMA;
    memcpy(value, &protocol, sizeof protocol);
  }
  return result;
}

static ssize_t send_to(const struct descriptor* record, int fd, const void* bytes, size_t count, int flags,
                       const struct sockaddr* address, socklen_t length) {
  struct sockaddr_nl room;
  const struct sockaddr* to = netlink_destination(record, address, &length, &room);
  return NEXT(sendto)(fd, bytes, count, flags, (__CONST_SOCKADDR_ARG){.__sockaddr__ = to}, length);
}

EXPORT ssize_t sendto(int fd, const void* bytes, size_t count, int flags, __CONST_SOCKADDR_ARG address,
                      socklen_t length) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return NEXT(sendto)(fd, bytes, count, flags, address, length);
  return send_to(record, fd, bytes, count, flags, address.__sockaddr__, length);
}

EXPORT ssize_t send(int fd, const void* bytes, size_t count, int flags) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return NEXT(send)(fd, bytes, count, flags);
  return send_to(record, fd, bytes, count, flags, NULL, 0);
}

static ssize_t send_message(const struct descriptor* record, int fd, const struct msghdr* message,
                            int flags) {
  struct sockaddr_nl room;
  struct msghdr led = *message;
  led.msg_name = (void*)netlink_destination(record, message->msg_name, &led.msg_namelen, &room);
  return NEXT(sendmsg)(fd, &led, flags);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return NEXT(sendmsg)(fd, message, flags);
  return send_message(record, fd, message, flags);
}

EXPORT int sendmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return NEXT(sendmmsg)(fd, messages, count, flags);
  for (unsigned i = 0; i < count; ++i) {
    const ssize_t sent = send_message(record, fd, &messages[i].msg_hdr, flags);
    if (sent < 0) return i == 0 ? -1 : (int)i;
    messages[i].msg_len = (unsigned)sent;
  }
  return (int)count;
}

// Descriptors that came with a message may be copies of ours.
static ssize_t look_for_descriptors(ssize_t result, const struct msghdr* message) {
  if (result < 0 || message->msg_controllen < sizeof(struct cmsghdr) || message->msg_control == NULL)
    return result;
  for (struct cmsghdr* c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR((struct msghdr*)message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
      int fd;
      memcpy(&fd, (const char*)c + at, sizeof fd);
      descriptor_arrived(fd);
    }
  }
  return result;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return look_for_descriptors(NEXT(recvmsg)(fd, message, flags), message);
  return netlink_receive(record, fd, message, flags);
}

EXPORT int recvmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags, struct timespec* timeout) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) {
    const int got = NEXT(recvmmsg)(fd, messages, count, flags, timeout);
    for (int i = 0; i < got; ++i) look_for_descriptors(0, &messages[i].msg_hdr);
    return got;
  }
  if (count == 0) return 0;
  const ssize_t got = netlink_receive(record, fd, &messages[0].msg_hdr, flags & ~MSG_WAITFORONE);
  if (got < 0) return -1;
  messages[0].msg_len = (unsigned)got;
  return 1;
}

static ssize_t receive_from(const struct descriptor* record, int fd, void* bytes, size_t count, int flags,
                            struct sockaddr* address, socklen_t* length) {
  struct iovec part = {.iov_base = bytes, .iov_len = count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = address};
  message.msg_namelen = address == NULL || length == NULL ? 0 : *length;
  const ssize_t got = netlink_receive(record, fd, &message, flags);
  if (got >= 0 && address != NULL && length != NULL) *length = message.msg_namelen;
  return got;
}

EXPORT ssize_t recvfrom(int fd, void* bytes, size_t count, int flags, __SOCKADDR_ARG address,
                        socklen_t* length) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return NEXT(recvfrom)(fd, bytes, count, flags, address, length);
  return receive_from(record, fd, bytes, count, flags, address.__sockaddr__, length);
}

EXPORT ssize_t recv(int fd, void* bytes, size_t count, int flags) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL) return NEXT(recv)(fd, bytes, count, flags);
  return receive_from(record, fd, bytes, count, flags, NULL, NULL);
}

ssize_t __recv_chk(int fd, void* bytes, size_t count, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void* bytes, size_t count, size_t room, int flags, __SOCKADDR_ARG address,
                       socklen_t* length);

EXPORT ssize_t __recv_chk(int fd, void* bytes, size_t count, size_t room, int flags) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL || count > room) return NEXT(__recv_chk)(fd, bytes, count, room, flags);
  return receive_from(record, fd, bytes, count, flags, NULL, NULL);
}

EXPORT ssize_t __recvfrom_chk(int fd, void* bytes, size_t count, size_t room, int flags,
                              __SOCKADDR_ARG address, socklen_t* length) {
  const struct descriptor* record = netlink_of(fd);
  if (record == NULL || count > room)
    return NEXT(__recvfrom_chk)(fd, bytes, count, room, flags, address, length);
  return receive_from(record, fd, bytes, count, flags, address.__sockaddr__, length);
}
