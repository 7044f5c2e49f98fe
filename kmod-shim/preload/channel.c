// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/channel.h"

#include <string.h>

#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/signals.h"

static int make(struct connection* connection) {
  const uint64_t signals = signals_block();
  int fd = -EDEADLK;
  if (lock_take(&connection->events)) {
    struct event_queue* queue = event_queues_free_entry(&connection->queues);
    fd = queue == NULL ? -ENOMEM : event_queue_make(queue);
    lock_give(&connection->events);
  }
  signals_restore(signals);
  return fd;
}

long channel_create(struct connection* connection, const struct command* command) {
  struct ib_uverbs_create_comp_channel request;
  struct ib_uverbs_create_comp_channel_resp response;
  if (!command_request(command, &request, sizeof request)) return -EINVAL;
  if (command->response_room < sizeof response) return -ENOSPC;
  if (atomic_load(&connection->exchange.gone)) return -EIO;
  const int fd = make(connection);
  if (fd < 0) return fd;
  response.fd = (uint32_t)fd;
  memcpy((void*)(uintptr_t)request.response, &response, sizeof response);
  return (long)command->count;
}

int channel_create_async(struct connection* connection) {
  return make(connection);
}
