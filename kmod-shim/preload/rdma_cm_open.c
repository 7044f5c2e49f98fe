// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/rdma_cm_open.h"

#include <string.h>

#include "kmod-shim/preload/descriptor.h"
#include "kmod-shim/preload/device_connect.h"
#include "kmod-shim/preload/raw.h"

static const int hello_timeout_ms = 5000;

// The program's end, or a negative errno.
static int say_hello(struct rdma_cm_channel* channel) {
  const struct uroce_hello hello = {.role = UROCE_ROLE_RDMA_CM, .version = UROCE_VERSION};
  const struct iovec part = {.iov_base = (void*)&hello, .iov_len = sizeof hello};
  struct uroce_hello_reply told = {.pid = 0};
  struct reply reply = {.length = 0};
  const int error =
      exchange(&channel->exchange, channel->line.fd, UROCE_MSG_HELLO, &part, 1, &reply, hello_timeout_ms);
  if (reply.length == sizeof told) memcpy(&told, reply.bytes, sizeof told);
  told.text[sizeof told.text - 1] = '\0';
  if (error != 0) return device_refused(-error, &told);
  if (reply.far_end >= 0) raw_close(reply.far_end);
  channel->number = told.channel;
  // A descriptor gets lost where the program's table of them is full.
  return reply.program_end >= 0 ? reply.program_end : -EMFILE;
}

int rdma_cm_open(void) {
  const int connected = device_connect();
  if (connected < 0) return connected;
  // Out of the way first: the program's end gets the lowest number.
  struct rdma_cm_channel channel = {.line = kept_take(connected)};
  int fd = say_hello(&channel);
  if (fd >= 0) {
    struct descriptor* record = descriptor_claim(fd, DESCRIPTOR_RDMA_CM);
    if (record != NULL) {
      record->rdma_cm = channel;
      descriptor_publish(record, fd);
      return fd;
    }
    raw_close(fd);
    fd = -EMFILE;
  }
  kept_drop(&channel.line);
  return fd;
}
