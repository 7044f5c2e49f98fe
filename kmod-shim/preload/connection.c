// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/connection.h"

void connection_drop(struct connection* connection) {
  event_queue_drop(&connection->async);
  event_queues_drop_all(&connection->queues);
  object_table_drop(&connection->objects);
}
