// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A command as librdmacm wrote it.
#ifndef UROCE_PRELOAD_RDMA_CM_REQUEST_H
#define UROCE_PRELOAD_RDMA_CM_REQUEST_H

#include <rdma/rdma_user_cm.h>
#include <stddef.h>
#include <stdint.h>

struct rdma_cm_request {
  const void* bytes;  // struct rdma_ucm_cmd_hdr and what the command has
  size_t count;
  uint32_t command;
  uint64_t response;  // address
  size_t response_room;
};

// 0 or a negative errno, as the kernel checks it. What needs knowledge of the id is uroced's to check.
int rdma_cm_parse(const void* bytes, size_t count, struct rdma_cm_request* out);

#endif
