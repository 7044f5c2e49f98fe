// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// GET_EVENT. A byte in the descriptor's socket stands for each event, and who has taken one fetches an event.
#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/rdma_cm.h"
#include "kmod-shim/preload/signals.h"

// The descriptor that a call began with.
struct opened {
  struct descriptor* device;
  int fd;
  uint64_t inode;
};

// Other threads may have closed it since, and opened something else.
static bool is_still_open(const struct opened* opened) {
  return descriptor_of(opened->fd) == opened->device && atomic_load(&opened->device->inode) == opened->inode;
}

// 0; EAGAIN no event waits; EBADF it was closed; ENODEV uroced has left.
static int take_byte(const struct opened* opened) {
  char byte;
  if (!is_still_open(opened)) return -EBADF;
  const long got = RAW(SYS_recvfrom, opened->fd, &byte, 1, MSG_DONTWAIT, NULL, NULL);
  if (got == 1) return 0;
  return got == 0 ? -ENODEV : (int)got;
}

// The lock `commands` is held.
static int fetch(const struct opened* opened, const struct rdma_cm_request* request, struct reply* reply) {
  struct rdma_cm_channel* channel = &opened->device->rdma_cm;
  const struct iovec part = {.iov_base = (void*)request->bytes, .iov_len = request->count};
  if (atomic_load(&channel->exchange.gone)) return -EIO;
  for (;;) {
    const int error = take_byte(opened);
    if (error != 0) return error;
    const int fetched = rdma_cm_exchange(channel, &part, 1, reply);
    // A byte without an event: uroced's worker was replaced.
    if (fetched != -EAGAIN) return fetched;
  }
}

static int fetch_alone(const struct opened* opened, const struct rdma_cm_request* request) {
  struct descriptor* device = opened->device;
  struct reply reply;
  int error = -EDEADLK;
  atomic_fetch_add(&device->users, 1);
  const uint64_t signals = signals_block();
  if (lock_take(&device->rdma_cm.exchange.commands)) {
    error = fetch(opened, request, &reply);
    lock_give(&device->rdma_cm.exchange.commands);
  }
  if (error == 0) rdma_cm_respond(request, &reply);
  signals_restore(signals);
  atomic_fetch_sub(&device->users, 1);
  return error;
}

// The socket's own wait is the kernel's: it knows O_NONBLOCK, SA_RESTART and cancellation. Nothing is taken.
static int wait_for_byte(int fd) {
  char byte;
  const ssize_t got = NEXT(recv)(fd, &byte, 1, MSG_PEEK);
  if (got == 1) return 0;
  return got == 0 ? -ENODEV : -errno;
}

// The kernel's call holds the open file: a close elsewhere does not end it, and no event comes any more.
static int wait_after_close(int flags) {
  if ((flags & O_NONBLOCK) != 0) return -EAGAIN;
  pause();
  return -EINTR;
}

int rdma_cm_get_event(struct descriptor* device, int fd, const struct rdma_cm_request* request) {
  const struct opened opened = {.device = device, .fd = fd, .inode = atomic_load(&device->inode)};
  const int flags = raw_fcntl(fd, F_GETFL, 0);
  if (flags < 0) return flags;
  for (;;) {
    const int error = fetch_alone(&opened, request);
    if (error == 0) return 0;
    const int waited = error == -EAGAIN ? wait_for_byte(fd) : error;
    if (waited == -EINTR) return waited;
    if (!is_still_open(&opened)) return wait_after_close(flags);
    if (waited != 0) return waited;
  }
}
