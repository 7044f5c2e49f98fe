// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <string.h>

#include "kmod-shim/preload/process.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/rdma_cm.h"
#include "kmod-shim/preload/signals.h"
#include "kmod-shim/uapi/uroce_daemon.h"

// A command on its way.
struct order {
  const struct rdma_cm_request* request;
  struct iovec parts[2];
  int count;
  struct rdma_cm_channel* channel;
  struct rdma_cm_channel* other;    // MIGRATE_ID: the channel that the id leaves; else NULL
  const struct descriptor* holder;  // that events may be withdrawn from
  int bytes_at;                     // its number
  struct {
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_migrate_id id;
  } migration;  // travels in the place of what was written
};

int rdma_cm_exchange(struct rdma_cm_channel* channel, const struct iovec* parts, int count,
                     struct reply* reply) {
  if (atomic_load(&channel->exchange.gone) || !kept_is_there(&channel->line)) return -EIO;
  const int error =
      exchange(&channel->exchange, channel->line.fd, UROCE_MSG_COMMAND, parts, count, reply, -1);
  if (error != 0) return error;
  if (reply->program_end >= 0) raw_close(reply->program_end);
  if (reply->far_end >= 0) raw_close(reply->far_end);
  return reply->length < sizeof(struct uroce_cm_reply) ? -EIO : 0;
}

void rdma_cm_respond(const struct rdma_cm_request* request, const struct reply* reply) {
  if (request->response == 0) return;
  const size_t length = reply->length - sizeof(struct uroce_cm_reply);
  memcpy((void*)(uintptr_t)request->response, reply->bytes + sizeof(struct uroce_cm_reply),
         length < request->response_room ? length : request->response_room);
}

static void withdraw(const struct order* order, const struct reply* reply) {
  struct uroce_cm_reply told;
  memcpy(&told, reply->bytes, sizeof told);
  while (told.withdrawn != 0) {
    char bytes[256];
    // Other threads may have closed it and opened something else.
    if (descriptor_of(order->bytes_at) != order->holder) return;
    const size_t most = told.withdrawn < sizeof bytes ? told.withdrawn : sizeof bytes;
    const long got = RAW(SYS_recvfrom, order->bytes_at, bytes, most, MSG_DONTWAIT, NULL, NULL);
    if (got <= 0) return;
    told.withdrawn -= (uint32_t)got;
  }
}

static bool take_both(struct lock* first, struct lock* second) {
  if (!lock_take(first)) return false;
  if (second == NULL || lock_take(second)) return true;
  lock_give(first);
  return false;
}

static int send_order(const struct order* order) {
  struct reply reply;
  struct lock *first = &order->channel->exchange.commands, *second = NULL;
  if (order->other != NULL && order->other != order->channel) {
    second = &order->other->exchange.commands;
    if (order->other < order->channel) {
      second = first;
      first = &order->other->exchange.commands;
    }
  }
  int error = -EDEADLK;
  const uint64_t signals = signals_block();
  if (take_both(first, second)) {
    error = rdma_cm_exchange(order->channel, order->parts, order->count, &reply);
    if (error == 0) withdraw(order, &reply);
    if (second != NULL) lock_give(second);
    lock_give(first);
  }
  if (error == 0) rdma_cm_respond(order->request, &reply);
  signals_restore(signals);
  return error;
}

static int set_option(struct order* order) {
  struct rdma_ucm_set_option option;
  order->parts[0].iov_len = sizeof(struct rdma_ucm_cmd_hdr) + sizeof option;
  memcpy(&option, (const char*)order->request->bytes + sizeof(struct rdma_ucm_cmd_hdr), sizeof option);
  if (option.optlen > UROCE_CM_OPTION_MAX) return -EINVAL;
  order->parts[1] = (struct iovec){.iov_base = (void*)(uintptr_t)option.optval, .iov_len = option.optlen};
  order->count = 2;
  return send_order(order);
}

static int migrate(struct order* order) {
  memcpy(&order->migration, order->request->bytes, sizeof order->migration);
  const int fd = (int)order->migration.id.fd;
  if (raw_fcntl(fd, F_GETFD, 0) < 0) return -ENOENT;
  struct descriptor* old = descriptor_of(fd);
  if (old == NULL || old->kind != DESCRIPTOR_RDMA_CM) return -EINVAL;
  if (old->generation != process_generation()) return -EACCES;
  atomic_fetch_add(&old->users, 1);
  order->other = &old->rdma_cm;
  order->holder = old;
  order->bytes_at = fd;
  order->migration.id.fd = old->rdma_cm.number;
  order->parts[0] = (struct iovec){.iov_base = &order->migration, .iov_len = sizeof order->migration};
  const int error = send_order(order);
  atomic_fetch_sub(&old->users, 1);
  return error;
}

static int carry(struct descriptor* device, int fd, const struct rdma_cm_request* request) {
  struct order order = {.request = request,
                        .parts = {{.iov_base = (void*)request->bytes, .iov_len = request->count}},
                        .count = 1,
                        .channel = &device->rdma_cm,
                        .holder = device,
                        .bytes_at = fd};
  switch (request->command) {
    case RDMA_USER_CM_CMD_SET_OPTION: return set_option(&order);
    case RDMA_USER_CM_CMD_MIGRATE_ID: return migrate(&order);
    default: return send_order(&order);
  }
}

long rdma_cm_write(struct descriptor* device, int fd, const void* bytes, size_t count) {
  // As the kernel does: what an ancestor opened is not this process's to use.
  if (device->generation != process_generation()) return -EACCES;
  struct rdma_cm_request request;
  int error = rdma_cm_parse(bytes, count, &request);
  if (error != 0) return error;
  if (request.command == RDMA_USER_CM_CMD_GET_EVENT) {
    error = rdma_cm_get_event(device, fd, &request);
  } else {
    atomic_fetch_add(&device->users, 1);
    error = carry(device, fd, &request);
    atomic_fetch_sub(&device->users, 1);
  }
  return error == 0 ? (long)count : error;
}
