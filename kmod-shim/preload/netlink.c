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
  struct descriptor* record = descriptor_claim(fd, DESCRIPTOR_NETLINK);
  if (record == NULL) {
    raw_close(fd);
    return -EMFILE;
  }
  record->netlink_port = world.netlink_port;
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

ssize_t netlink_receive(const struct descriptor* socket, int fd, struct msghdr* message, int flags) {
  void* const name = message->msg_name;
  const socklen_t name_room = message->msg_namelen;
  const size_t control_room = message->msg_controllen;
  for (;;) {
    struct sockaddr_nl source = {.nl_family = 0};
    message->msg_name = &source;
    message->msg_namelen = sizeof source;
    message->msg_controllen = control_room;
    const ssize_t got = NEXT(recvmsg)(fd, message, flags);
    const socklen_t told = message->msg_namelen;
    message->msg_name = name;
    message->msg_namelen = name == NULL ? 0 : name_room;
    if (got < 0 || (got == 0 && told == 0)) return got;
    if (told != sizeof source || source.nl_pid != socket->netlink_port) {
      if ((flags & MSG_PEEK) != 0) drop_one(fd);
      continue;
    }
    source.nl_pid = 0;
    if (name != NULL) {
      memcpy(name, &source, name_room < sizeof source ? name_room : sizeof source);
      message->msg_namelen = sizeof source;
    }
    return got;
  }
}
