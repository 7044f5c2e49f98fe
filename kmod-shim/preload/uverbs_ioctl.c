// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ENOTTY makes libibverbs speak write(). The one ioctl that it has no other way for is the async descriptor
// of an imported context.
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>

#include "kmod-shim/preload/channel.h"
#include "kmod-shim/preload/process.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/uverbs.h"

static long allocate_async(struct connection* connection, struct ib_uverbs_ioctl_hdr* header) {
  for (uint16_t i = 0; i < header->num_attrs; ++i) {
    struct ib_uverbs_attr* attribute = &header->attrs[i];
    if (attribute->attr_id != UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE) continue;
    const int fd = channel_create_async(connection);
    if (fd < 0) return fd;
    attribute->data_s64 = fd;
    return 0;
  }
  return -EINVAL;
}

long uverbs_ioctl(struct descriptor* device, unsigned long request, void* argument) {
  struct ib_uverbs_ioctl_hdr* header = argument;
  if (request != RDMA_VERBS_IOCTL || header == NULL || header->object_id != UVERBS_OBJECT_ASYNC_EVENT ||
      header->method_id != UVERBS_METHOD_ASYNC_EVENT_ALLOC) {
    return -ENOTTY;
  }
  if (header->length != sizeof *header + header->num_attrs * sizeof header->attrs[0]) return -EINVAL;
  if (device->generation != process_generation()) return -EACCES;
  atomic_fetch_add(&device->users, 1);
  const long result = allocate_async(&device->connection, header);
  atomic_fetch_sub(&device->users, 1);
  return result;
}
