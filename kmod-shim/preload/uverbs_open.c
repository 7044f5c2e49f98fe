// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/uverbs_open.h"

#include "kmod-shim/preload/daemon_line.h"
#include "kmod-shim/preload/descriptor.h"
#include "kmod-shim/preload/device_connect.h"
#include "kmod-shim/preload/raw.h"

// 0, or a negative errno.
static int become_device(int fd, uint32_t minor) {
  struct uroce_hello_reply reply;
  const int error = daemon_hello(fd, UROCE_ROLE_UVERBS, minor, &reply);
  if (error != 0) return device_refused(error, &reply);
  struct descriptor* record = descriptor_claim(fd, DESCRIPTOR_UVERBS);
  if (record == NULL) return -EMFILE;
  record->connection.minor = minor;
  record->connection.exchange.seq = 1;  // HELLO was the first request
  descriptor_publish(record, fd);
  return 0;
}

int uverbs_open(uint32_t minor) {
  const int fd = device_connect();
  if (fd < 0) return fd;
  const int error = become_device(fd, minor);
  if (error == 0) return fd;
  raw_close(fd);
  return error;
}
