// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/netlink.h"

#include <string.h>

#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/refusal.h"
#include "kmod-shim/preload/world.h"

int netlink_open(int type) {
  struct world world;
  if (!world_ask(&world)) {
    if (world.error == EPERM) refusal_tell(world.refusal);
    return -ENOENT;
  }
  if (world.netlink_port == 0) return -ENOENT;
  const int fd = raw_socket(AF_NETLINK, type, NETLINK_USERSOCK);
  if (fd < 0) return fd;
  const int on = 1;
  RAW(SYS_setsockopt, fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  struct descriptor* record = descriptor_claim(fd, DESCRIPTOR_NETLINK);
  if (record == NULL) {
    raw_close(fd);
    return -EMFILE;
  }
  record->netlink_port = world.netlink_port;
  record->netlink_uid = world.daemon_uid;
  descriptor_publish(record, fd);
  return fd;
}

const struct sockaddr* netlink_destination(const struct descriptor* socket, const struct sockaddr* address,
                                           socklen_t* length, struct sockaddr_nl* room) {
  if (address == NULL || *length == 0) {
    *room = (struct sockaddr_nl){.nl_family = AF_NETLINK};
  } else if (address->sa_family == AF_NETLINK && *length >= sizeof *room) {
    memcpy(room, address, sizeof *room);
  } else {
    return address;
  }
  if (room->nl_pid == 0) room->nl_pid = socket->netlink_port;
  *length = sizeof *room;
  return (const struct sockaddr*)room;
}

static void drop_one(int fd) {
  struct msghdr nothing = {.msg_iovlen = 0};
  raw_recvmsg(fd, &nothing, MSG_DONTWAIT);
}

// A port is anybody's as soon as uroced has left; whose process has sent is what the kernel says.
static bool is_from_daemon(const struct descriptor* socket, const struct sockaddr_nl* source,
                           struct msghdr* message) {
  if (source->nl_pid != socket->netlink_port) return false;
  for (struct cmsghdr* c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    struct ucred sender;
    memcpy(&sender, CMSG_DATA(c), sizeof sender);
    return sender.uid == socket->netlink_uid;
  }
  return false;
}

// What the program asked for besides, into the room it has for it.
static void hand_over(struct msghdr* got, void* room, size_t length, struct msghdr* out) {
  size_t used = 0;
  for (struct cmsghdr* c = CMSG_FIRSTHDR(got); c != NULL; c = CMSG_NXTHDR(got, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) continue;
    const size_t space = CMSG_ALIGN(c->cmsg_len);
    if (room == NULL || space > length - used) {
      out->msg_flags |= MSG_CTRUNC;
      break;
    }
    memcpy((char*)room + used, c, c->cmsg_len);
    used += space;
  }
  out->msg_control = room;
  out->msg_controllen = used;
}

ssize_t netlink_receive(const struct descriptor* socket, int fd, struct msghdr* message, int flags) {
  for (;;) {
    _Alignas(struct cmsghdr) char control[256];
    struct sockaddr_nl source = {.nl_family = 0};
    struct msghdr got = *message;
    got.msg_name = &source;
    got.msg_namelen = sizeof source;
    got.msg_control = control;
    got.msg_controllen = sizeof control;
    const ssize_t count = NEXT(recvmsg)(fd, &got, flags);
    if (count < 0 || (count == 0 && got.msg_namelen == 0)) {
      if (count == 0) message->msg_namelen = 0;
      return count;
    }
    if (got.msg_namelen != sizeof source || !is_from_daemon(socket, &source, &got)) {
      if ((flags & MSG_PEEK) != 0) drop_one(fd);
      continue;
    }
    source.nl_pid = 0;
    if (message->msg_name != NULL) {
      const size_t room = message->msg_namelen;
      memcpy(message->msg_name, &source, room < sizeof source ? room : sizeof source);
      message->msg_namelen = sizeof source;
    } else {
      message->msg_namelen = 0;
    }
    message->msg_flags = got.msg_flags;
    hand_over(&got, message->msg_control, message->msg_controllen, message);
    return count;
  }
}
