// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A queue that the program reads events from: a socketpair, the program's end of which is the completion
// channel or the async descriptor. The far end is kept here. A closed queue shows by its far end's hang-up.
#ifndef UROCE_PRELOAD_EVENT_QUEUE_H
#define UROCE_PRELOAD_EVENT_QUEUE_H

#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmod-shim/preload/kept.h"

struct event_queue {
  struct kept far;
  int number;              // where the program's end was last seen
  uint64_t device, inode;  // of the program's end
};

struct event_queues {
  struct event_queue* at;  // entries without a far end are free
  uint32_t room;
};

// Names an entry of event_queues; the inode tells whether it is still the same queue.
struct queue_name {
  uint32_t index;
  uint64_t inode;  // 0: none
};

// Makes a queue. Returns the program's end, at the lowest free number and close-on-exec, or a negative errno.
int event_queue_make(struct event_queue* out);
// Of two ends that are open already.
void event_queue_adopt(struct event_queue* out, int program_end, int far_end);
// 0; EAGAIN full; EPIPE the program has closed its end and wants no events; EIO the program has closed what
// was kept here.
int event_queue_send(struct event_queue* queue, const void* record, size_t bytes);
void event_queue_drop(struct event_queue* queue);

// Takes out all unread records that `matches` says yes to; the others keep their order. Returns how many.
// Nobody else may send.
uint32_t event_queue_purge(struct event_queue* queue, size_t bytes,
                           bool (*matches)(const void* record, const void* context), const void* context);

// A free entry, after entries of queues that are closed have been freed. NULL: no memory.
struct event_queue* event_queues_free_entry(struct event_queues* queues);
// The queue whose program's end `fd` is; inode 0: there is none.
struct queue_name event_queues_find(struct event_queues* queues, int fd);
struct event_queue* event_queues_get(struct event_queues* queues, struct queue_name name);
void event_queues_drop_all(struct event_queues* queues);

#endif
