// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/uverbs_open.h"

#include <string.h>

#include "kmod-shim/preload/daemon_line.h"
#include "kmod-shim/preload/descriptor.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/refusal.h"
#include "kmod-shim/preload/world.h"

static void set_flags(int fd, int flags) {
  if ((flags & O_NONBLOCK) != 0) raw_fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
  if ((flags & O_CLOEXEC) == 0) raw_fcntl(fd, F_SETFD, 0);
}

// 0, or a positive errno.
static int become_device(int fd, uint32_t minor) {
  struct uroce_hello_reply reply;
  const int error = daemon_hello(fd, UROCE_ROLE_UVERBS, minor, &reply);
  if (error == EPERM || error == ENOMEM) refusal_tell(reply.text);
  if (error != 0) return error > 0 ? error : EIO;
  struct descriptor* record = descriptor_claim(fd, DESCRIPTOR_UVERBS);
  if (record == NULL) return EMFILE;
  record->connection.minor = minor;
  record->connection.exchange.seq = 1;  // HELLO was the first request
  descriptor_publish(record, fd);
  return 0;
}

int uverbs_open(uint32_t minor, int flags) {
  struct world world;
  if (!world_get(&world)) return -world.error;
  int fd = daemon_connect(world.daemon_name, world.euid);
  // The daemon that was remembered has left.
  if (fd == -ECONNREFUSED && world_ask(&world)) fd = daemon_connect(world.daemon_name, world.euid);
  if (fd < 0) return fd == -ECONNREFUSED ? -ENODEV : fd;
  const int error = become_device(fd, minor);
  if (error != 0) {
    raw_close(fd);
    return -error;
  }
  set_flags(fd, flags);
  return fd;
}
