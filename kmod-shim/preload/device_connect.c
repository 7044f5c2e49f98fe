// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/device_connect.h"

#include <errno.h>

#include "kmod-shim/preload/daemon_line.h"
#include "kmod-shim/preload/refusal.h"
#include "kmod-shim/preload/world.h"

int device_connect(void) {
  struct world world;
  if (!world_get(&world)) return -world.error;
  int fd = daemon_connect(world.daemon_name, world.euid);
  // The daemon that was remembered has left.
  if (fd == -ECONNREFUSED && world_ask(&world)) fd = daemon_connect(world.daemon_name, world.euid);
  return fd == -ECONNREFUSED ? -ENODEV : fd;
}

int device_refused(int error, const struct uroce_hello_reply* reply) {
  if (error == EPERM || error == EMFILE) refusal_tell(reply->text);
  return error > 0 ? -error : -EIO;
}
