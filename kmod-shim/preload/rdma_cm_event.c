// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// GET_EVENT. A byte in the descriptor's socket stands for each event, and who has taken one fetches an event.
#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/process.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/rdma_cm.h"
#include "kmod-shim/preload/signals.h"

// 0; EAGAIN no event waits; ENODEV uroced has left.
static int take_byte(int fd) {
  char byte;
  const long got = RAW(SYS_recvfrom, fd, &byte, 1, MSG_DONTWAIT, NULL, NULL);
  if (got == 1) return 0;
  return got == 0 ? -ENODEV : (int)got;
}

// The lock `commands` is held.
static int fetch(struct rdma_cm_channel* channel, int fd, const struct rdma_cm_request* request,
                 struct reply* reply) {
  const struct iovec part = {.iov_base = (void*)request->bytes, .iov_len = request->count};
  if (atomic_load(&channel->exchange.gone)) return -EIO;
  for (;;) {
    const int error = take_byte(fd);
    if (error != 0) return error;
    const int fetched = rdma_cm_exchange(channel, &part, 1, reply);
    // A byte without an event: uroced's worker was replaced.
    if (fetched != -EAGAIN) return fetched;
  }
}

static int fetch_alone(struct descriptor* device, int fd, const struct rdma_cm_request* request) {
  struct rdma_cm_channel* channel = &device->rdma_cm;
  struct reply reply;
  int error = -EDEADLK;
  atomic_fetch_add(&device->users, 1);
  const uint64_t signals = signals_block();
  if (lock_take(&channel->exchange.commands)) {
    error = fetch(channel, fd, request, &reply);
    lock_give(&channel->exchange.commands);
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

int rdma_cm_get_event(struct descriptor* device, int fd, const struct rdma_cm_request* request) {
  for (;;) {
    int error = fetch_alone(device, fd, request);
    if (error != -EAGAIN) return error;
    error = wait_for_byte(fd);
    if (error != 0) return error;
    // While it waited, other threads may have closed the descriptor and opened something else.
    device = descriptor_of(fd);
    if (device == NULL || device->kind != DESCRIPTOR_RDMA_CM || device->generation != process_generation())
      return -EBADF;
  }
}
