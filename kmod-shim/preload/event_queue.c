// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/event_queue.h"

#include <poll.h>
#include <string.h>

#include "kmod-shim/preload/memory.h"
#include "kmod-shim/preload/raw.h"

enum { queues_at_first = 64, numbers_searched = 4096 };

void event_queue_adopt(struct event_queue* out, int program_end, int far_end) {
  struct stat st = {.st_ino = 0};
  raw_fstat(program_end, &st);
  *out = (struct event_queue){.number = program_end, .device = st.st_dev, .inode = st.st_ino};
  out->far = kept_take(far_end);
}

int event_queue_make(struct event_queue* out) {
  int ends[2];
  const int error = (int)RAW(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
  if (error != 0) return error;
  event_queue_adopt(out, ends[0], ends[1]);
  return ends[0];
}

int event_queue_send(struct event_queue* queue, const void* record, size_t bytes) {
  if (queue->far.inode == 0) return EPIPE;
  if (!kept_is_there(&queue->far)) return EIO;
  long sent;
  do {
    sent = RAW(SYS_sendto, queue->far.fd, record, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
  } while (sent == -EINTR);
  if (sent >= 0) return 0;
  if (sent == -EPIPE || sent == -ECONNRESET) return EPIPE;
  return sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM ? EAGAIN : EIO;
}

static bool is_closed(const struct event_queue* queue) {
  if (!kept_is_there(&queue->far)) return true;
  struct pollfd look = {.fd = queue->far.fd};
  const struct timespec now = {0};
  return RAW(SYS_ppoll, &look, 1, &now, NULL, 0) > 0 && (look.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

void event_queue_drop(struct event_queue* queue) {
  kept_drop(&queue->far);
  *queue = (struct event_queue){.number = -1};
}

static bool leads_to(int fd, const struct event_queue* queue) {
  struct stat st;
  return raw_fstat(fd, &st) == 0 && st.st_ino == queue->inode && st.st_dev == queue->device;
}

// A number of the program's end, or -1.
static int program_end(struct event_queue* queue) {
  if (leads_to(queue->number, queue)) return queue->number;
  for (int fd = 0; fd < numbers_searched; ++fd) {
    if (leads_to(fd, queue)) return queue->number = fd;
  }
  return -1;
}

static long receive(int fd, void* record, size_t bytes, int flags) {
  long got;
  do {
    got = RAW(SYS_recvfrom, fd, record, bytes, flags | MSG_DONTWAIT, NULL, NULL);
  } while (got == -EINTR);
  return got;
}

static int set_peek_offset(int fd, int offset) {
  return (int)RAW(SYS_setsockopt, fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset);
}

uint32_t event_queue_purge(struct event_queue* queue, size_t bytes, bool (*matches)(const void*, const void*),
                           const void* context) {
  char record[sizeof(struct ib_uverbs_async_event_desc)];
  const int fd = queue->far.inode == 0 || is_closed(queue) ? -1 : program_end(queue);
  if (fd < 0 || bytes > sizeof record || set_peek_offset(fd, 0) != 0) return 0;
  uint32_t unread = 0, matching = 0;
  while (receive(fd, record, bytes, MSG_PEEK) == (long)bytes) {
    ++unread;
    matching += matches(record, context);
  }
  set_peek_offset(fd, -1);
  if (matching == 0) return 0;

  // One turn of the queue: what is taken out makes room for what goes back in.
  uint32_t purged = 0;
  for (uint32_t i = 0; i < unread && receive(fd, record, bytes, 0) == (long)bytes; ++i) {
    if (matches(record, context)) {
      ++purged;
    } else {
      event_queue_send(queue, record, bytes);
    }
  }
  return purged;
}

struct event_queue* event_queues_free_entry(struct event_queues* queues) {
  struct event_queue* free_entry = NULL;
  for (uint32_t i = 0; i < queues->room; ++i) {
    struct event_queue* queue = &queues->at[i];
    if (queue->far.inode != 0 && is_closed(queue)) event_queue_drop(queue);
    if (queue->far.inode == 0) free_entry = queue;
  }
  if (free_entry != NULL) return free_entry;
  const uint32_t room = queues->room == 0 ? queues_at_first : queues->room * 2;
  struct event_queue* grown = memory_grow(queues->at, queues->room * sizeof *grown, room * sizeof *grown);
  if (grown == NULL) return NULL;
  free_entry = &grown[queues->room];
  *queues = (struct event_queues){.at = grown, .room = room};
  return free_entry;
}

struct queue_name event_queues_find(struct event_queues* queues, int fd) {
  struct stat st;
  if (raw_fstat(fd, &st) != 0) return (struct queue_name){0};
  for (uint32_t i = 0; i < queues->room; ++i) {
    struct event_queue* queue = &queues->at[i];
    if (queue->far.inode == 0 || queue->inode != st.st_ino || queue->device != st.st_dev) continue;
    queue->number = fd;
    return (struct queue_name){.index = i, .inode = st.st_ino};
  }
  return (struct queue_name){0};
}

struct event_queue* event_queues_get(struct event_queues* queues, struct queue_name name) {
  if (name.inode == 0 || name.index >= queues->room || queues->at[name.index].inode != name.inode)
    return NULL;
  return &queues->at[name.index];
}

void event_queues_drop_all(struct event_queues* queues) {
  for (uint32_t i = 0; i < queues->room; ++i) event_queue_drop(&queues->at[i]);
  memory_unmap(queues->at, queues->room * sizeof *queues->at);
  *queues = (struct event_queues){0};
}
