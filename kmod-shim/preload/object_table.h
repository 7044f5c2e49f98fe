// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the stand-in must know about the CQs, QPs and SRQs of a connection: whose events go where and how many
// went. By handle, which DESTROY names, and by number, which a kick names.
#ifndef UROCE_PRELOAD_OBJECT_TABLE_H
#define UROCE_PRELOAD_OBJECT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "kmod-shim/preload/event_queue.h"

enum object_kind {
  OBJECT_CQ = 1,
  OBJECT_QP = 2,
  OBJECT_SRQ = 3,
};

struct object {
  uint32_t kind;    // enum object_kind; 0: a free place; with OBJECT_BY_NUMBER: leads to the handle
  uint32_t id;      // handle, or number
  uint32_t number;  // QPN, SRQ number, cq_id; of an entry by number: the handle
  uint32_t completions_sent;
  uint32_t asyncs_sent;
  uint64_t user_handle;
  struct queue_name channel;  // CQ: its completion channel
};

struct object_table {
  struct object* at;
  uint32_t room;  // a power of two
  uint32_t used;
};

// Makes room for one more object, so that the insert that follows cannot fail.
bool object_table_reserve(struct object_table* table);
void object_table_insert(struct object_table* table, const struct object* object);
// Valid until the table is next changed.
struct object* object_table_find(struct object_table* table, enum object_kind kind, uint32_t handle);
// The object of that number; where several share it (an XRC QP opened twice), the one of the user handle.
struct object* object_table_by_number(struct object_table* table, enum object_kind kind, uint32_t number,
                                      uint64_t user_handle);
void object_table_remove(struct object_table* table, enum object_kind kind, uint32_t handle);
void object_table_drop(struct object_table* table);

#endif
