// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What write() and ioctl() on an open /dev/infiniband/uverbsN do. Results as of the system call: a count or a
// negative errno.
#ifndef UROCE_PRELOAD_UVERBS_H
#define UROCE_PRELOAD_UVERBS_H

#include <stddef.h>
#include <stdint.h>

#include "kmod-shim/preload/descriptor.h"

long uverbs_write(struct descriptor* device, int fd, const void* bytes, size_t count);
long uverbs_ioctl(struct descriptor* device, unsigned long request, void* argument);

#endif
