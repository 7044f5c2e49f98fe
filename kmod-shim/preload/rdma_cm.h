// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What write() on an open /dev/infiniband/rdma_cm does. Results as of the system call: a count or a negative
// errno.
#ifndef UROCE_PRELOAD_RDMA_CM_H
#define UROCE_PRELOAD_RDMA_CM_H

#include <stddef.h>

#include "kmod-shim/preload/descriptor.h"
#include "kmod-shim/preload/rdma_cm_request.h"

long rdma_cm_write(struct descriptor* device, int fd, const void* bytes, size_t count);

// GET_EVENT: waits for an event, unless the descriptor is O_NONBLOCK; goes on waiting when another thread
// closes the descriptor meanwhile. A cancellation point, at which nothing is held. 0 or a negative errno.
int rdma_cm_get_event(struct descriptor* device, int fd, const struct rdma_cm_request* request);

// One request with the parts that travel; the lock `commands` is held. After 0 `reply` begins with a
// uroce_cm_reply.
int rdma_cm_exchange(struct rdma_cm_channel* channel, const struct iovec* parts, int count,
                     struct reply* reply);
// Stores the rest of the reply where the program wants it, as much as it has room for.
void rdma_cm_respond(const struct rdma_cm_request* request, const struct reply* reply);

#endif
