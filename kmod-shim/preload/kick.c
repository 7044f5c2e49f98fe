// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/kick.h"

#include <infiniband/verbs.h>

#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/signals.h"
#include "kmod-shim/uapi/uroce_abi.h"

static int complete(struct connection* connection, const struct uroce_kick* order) {
  struct object* cq = object_table_by_number(&connection->objects, OBJECT_CQ, order->id, order->user_handle);
  if (cq == NULL) return EINVAL;
  struct event_queue* channel = event_queues_get(&connection->queues, cq->channel);
  if (channel == NULL) return EPIPE;
  const struct ib_uverbs_comp_event_desc record = {.cq_handle = cq->user_handle};
  const int error = event_queue_send(channel, &record, sizeof record);
  if (error == 0) ++cq->completions_sent;
  return error;
}

static int raise_event(struct connection* connection, const struct uroce_kick* order, enum object_kind kind) {
  struct object* object = object_table_by_number(&connection->objects, kind, order->id, order->user_handle);
  if (object == NULL) return EINVAL;
  const struct ib_uverbs_async_event_desc record = {.element = object->user_handle,
                                                    .event_type = order->event_type};
  const int error = event_queue_send(&connection->async, &record, sizeof record);
  if (error == 0) ++object->asyncs_sent;
  return error;
}

static int raise_fatal(struct connection* connection) {
  const struct ib_uverbs_async_event_desc record = {.event_type = IBV_EVENT_DEVICE_FATAL};
  return event_queue_send(&connection->async, &record, sizeof record);
}

static int deliver(struct connection* connection, const struct uroce_kick* order) {
  switch (order->kind) {
    case UROCE_KICK_COMPLETION: return complete(connection, order);
    case UROCE_KICK_CQ_EVENT: return raise_event(connection, order, OBJECT_CQ);
    case UROCE_KICK_QP_EVENT: return raise_event(connection, order, OBJECT_QP);
    case UROCE_KICK_SRQ_EVENT: return raise_event(connection, order, OBJECT_SRQ);
    case UROCE_KICK_DEVICE_FATAL: return raise_fatal(connection);
    default: return EINVAL;
  }
}

long kick(struct connection* connection, const struct command* command) {
  struct uroce_kick order;
  if (!command_request(command, &order, sizeof order)) return -EINVAL;
  const uint64_t signals = signals_block();
  int error = EAGAIN;
  if (lock_take(&connection->events)) {
    error = deliver(connection, &order);
    lock_give(&connection->events);
  }
  signals_restore(signals);
  // Nobody waits for an event on a queue that the program has closed or never had.
  return error == 0 || error == EPIPE ? (long)command->count : -error;
}
