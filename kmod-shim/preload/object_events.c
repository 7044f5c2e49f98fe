// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/object_events.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "kmod-shim/preload/raw.h"
#include "kmod-shim/uapi/uroce_abi.h"

// Where each command has what is looked for; offsets are into the core request and the core response.
struct row {
  uint32_t number;
  bool extended;
  enum object_kind kind;
  bool ends;
  size_t in;       // makes: user_handle (64 bits); ends: handle (32 bits)
  size_t channel;  // comp_channel, 0: none
};

#define MAKES(NUMBER, EXTENDED, KIND, TYPE, CHANNEL) \
  { IB_USER_VERBS_CMD_##NUMBER, EXTENDED, OBJECT_##KIND, false, offsetof(struct TYPE, user_handle), CHANNEL }
#define ENDS(NUMBER, KIND, TYPE, MEMBER) \
  { IB_USER_VERBS_CMD_##NUMBER, false, OBJECT_##KIND, true, offsetof(struct TYPE, MEMBER), 0 }

static const struct row rows[] = {
    MAKES(CREATE_CQ, false, CQ, ib_uverbs_create_cq, offsetof(struct ib_uverbs_create_cq, comp_channel)),
    MAKES(CREATE_CQ, true, CQ, ib_uverbs_ex_create_cq, offsetof(struct ib_uverbs_ex_create_cq, comp_channel)),
    MAKES(CREATE_QP, false, QP, ib_uverbs_create_qp, 0),
    MAKES(CREATE_QP, true, QP, ib_uverbs_ex_create_qp, 0),
    MAKES(OPEN_QP, false, QP, ib_uverbs_open_qp, 0),
    MAKES(CREATE_SRQ, false, SRQ, ib_uverbs_create_srq, 0),
    MAKES(CREATE_XSRQ, false, SRQ, ib_uverbs_create_xsrq, 0),
    ENDS(DESTROY_CQ, CQ, ib_uverbs_destroy_cq, cq_handle),
    ENDS(DESTROY_QP, QP, ib_uverbs_destroy_qp, qp_handle),
    ENDS(DESTROY_SRQ, SRQ, ib_uverbs_destroy_srq, srq_handle),
};

static const struct row* row_of(const struct command* command) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    if (rows[i].number == command->number && rows[i].extended == command->extended) return &rows[i];
  }
  return NULL;
}

// The channel that a CREATE_CQ names is noted, and uroced is told that there is none.
static int take_channel(struct connection* connection, const struct command* command, size_t member,
                        struct object_change* out) {
  const size_t at = command->payload + member;
  int32_t fd;
  const int32_t none = -1;
  if (at + sizeof fd > command->count) return 0;  // too short: uroced says so
  memcpy(&fd, (const char*)command->bytes + at, sizeof fd);
  if (fd >= 0) {
    out->channel = event_queues_find(&connection->queues, fd);
    if (out->channel.inode == 0) return -EINVAL;
  }
  out->head_length = at + sizeof fd;
  memcpy(out->head, command->bytes, out->head_length);
  memcpy(out->head + at, &none, sizeof none);
  return 0;
}

int object_before(struct connection* connection, const struct command* command, struct object_change* out) {
  const struct row* row = row_of(command);
  out->kind = 0;
  out->head_length = 0;
  out->channel = (struct queue_name){0};
  if (row == NULL) return 0;
  const size_t at = command->payload + row->in;
  const size_t length = row->ends ? sizeof out->handle : sizeof out->user_handle;
  if (at + length > command->count) return 0;
  out->kind = row->kind;
  out->ends = row->ends;
  memcpy(row->ends ? (void*)&out->handle : (void*)&out->user_handle, (const char*)command->bytes + at,
         length);
  if (row->ends) return 0;

  if (!lock_take(&connection->events)) return -EDEADLK;
  int error = object_table_reserve(&connection->objects) ? 0 : -ENOMEM;
  if (error == 0 && row->channel != 0) error = take_channel(connection, command, row->channel, out);
  lock_give(&connection->events);
  return error;
}

static uint32_t word_at(const struct reply* reply, size_t at) {
  uint32_t word = 0;
  if (at + sizeof word <= reply->length) memcpy(&word, reply->bytes + at, sizeof word);
  return word;
}

// What a kick names the object by.
static uint32_t number_of(const struct object_change* change, const struct reply* reply) {
  switch (change->kind) {
    case OBJECT_QP: return word_at(reply, offsetof(struct ib_uverbs_create_qp_resp, qpn));
    case OBJECT_SRQ:
      return word_at(reply, sizeof(struct ib_uverbs_create_srq_resp) +
                                offsetof(struct uroce_create_srq_resp, srq_number));
    case OBJECT_CQ: break;
  }
  return word_at(reply, 0);  // cq_id is the handle: uroce_abi.h
}

static bool is_event_of(enum object_kind kind, uint32_t event) {
  switch (kind) {
    case OBJECT_CQ: return event == IBV_EVENT_CQ_ERR;
    case OBJECT_SRQ: return event == IBV_EVENT_SRQ_ERR || event == IBV_EVENT_SRQ_LIMIT_REACHED;
    case OBJECT_QP:
      return (event >= IBV_EVENT_QP_FATAL && event <= IBV_EVENT_PATH_MIG_ERR) ||
             event == IBV_EVENT_QP_LAST_WQE_REACHED;
  }
  return false;
}

static bool is_async_of(const void* record, const void* context) {
  const struct ib_uverbs_async_event_desc* event = record;
  const struct object* object = context;
  return event->element == object->user_handle && is_event_of(object->kind, event->event_type);
}

static bool is_completion_of(const void* record, const void* context) {
  const struct ib_uverbs_comp_event_desc* event = record;
  const struct object* object = context;
  return event->cq_handle == object->user_handle;
}

static void report(struct reply* reply, size_t at, uint32_t count) {
  if (at + sizeof count <= reply->length) memcpy(reply->bytes + at, &count, sizeof count);
}

static void end_object(struct connection* connection, struct object* object, struct reply* reply) {
  uint32_t asyncs = object->asyncs_sent;
  if (asyncs != 0) {
    asyncs -=
        event_queue_purge(&connection->async, sizeof(struct ib_uverbs_async_event_desc), is_async_of, object);
  }
  if (object->kind != OBJECT_CQ) {
    report(reply, 0, asyncs);
    return;
  }
  uint32_t completions = object->completions_sent;
  struct event_queue* channel = event_queues_get(&connection->queues, object->channel);
  if (completions != 0 && channel != NULL) {
    completions -=
        event_queue_purge(channel, sizeof(struct ib_uverbs_comp_event_desc), is_completion_of, object);
  }
  report(reply, offsetof(struct ib_uverbs_destroy_cq_resp, comp_events_reported), completions);
  report(reply, offsetof(struct ib_uverbs_destroy_cq_resp, async_events_reported), asyncs);
}

void object_after(struct connection* connection, const struct object_change* change, struct reply* reply) {
  if (change->kind == 0 || !lock_take(&connection->events)) return;
  if (change->ends) {
    struct object* object = object_table_find(&connection->objects, change->kind, change->handle);
    if (object != NULL) end_object(connection, object, reply);
    object_table_remove(&connection->objects, change->kind, change->handle);
  } else {
    // The handle is the first word of every CREATE response.
    const struct object made = {.kind = change->kind,
                                .id = word_at(reply, 0),
                                .number = number_of(change, reply),
                                .user_handle = change->user_handle,
                                .channel = change->channel};
    object_table_insert(&connection->objects, &made);
  }
  lock_give(&connection->events);
}
