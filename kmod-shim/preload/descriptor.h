// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which descriptors are ours. A record belongs to a socket, named by (st_dev, st_ino); the number of a
// descriptor is a hint where to look, never more: numbers are closed and used again behind every wrapper
// (close_range, fclose, a vfork child that runs in our memory). So nothing is ever forgotten when a number is
// closed; a record is free for use again when no number leads to its socket.
#ifndef UROCE_PRELOAD_DESCRIPTOR_H
#define UROCE_PRELOAD_DESCRIPTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "kmod-shim/preload/connection.h"
#include "kmod-shim/preload/rdma_cm_channel.h"

enum { DESCRIPTOR_NUMBERS = 65536, DESCRIPTOR_RECORDS = 2048 };

enum descriptor_kind {
  DESCRIPTOR_UVERBS = 1,
  DESCRIPTOR_NETLINK = 2,
  DESCRIPTOR_RDMA_CM = 3,
};

struct descriptor {
  _Atomic uint64_t inode;  // 0: free; written last
  _Atomic uint64_t device;
  uint32_t generation;  // of the process that made it
  enum descriptor_kind kind;
  _Atomic uint32_t users;  // calls that are at work with it
  union {
    struct connection connection;    // DESCRIPTOR_UVERBS
    struct rdma_cm_channel rdma_cm;  // DESCRIPTOR_RDMA_CM
    struct {                         // DESCRIPTOR_NETLINK: uroced's
      uint32_t netlink_port;
      uint32_t netlink_uid;
    };
  };
};

// By number: 0, or the record that was last seen there, plus one. Numbers beyond the table share its last
// entry.
extern _Atomic uint16_t descriptor_hints[DESCRIPTOR_NUMBERS];

struct descriptor* descriptor_verify(int fd);

// The record of the descriptor, or NULL. One load for numbers that never were ours. errno stays as it is.
static inline struct descriptor* descriptor_of(int fd) {
  const unsigned at = (unsigned)fd < DESCRIPTOR_NUMBERS ? (unsigned)fd : DESCRIPTOR_NUMBERS - 1;
  if (__builtin_expect(atomic_load_explicit(&descriptor_hints[at], memory_order_relaxed) == 0, 1))
    return NULL;
  return descriptor_verify(fd);
}

// Makes the open socket `fd` ours; NULL when all records are in use. The record is known from
// descriptor_publish on.
struct descriptor* descriptor_claim(int fd, enum descriptor_kind kind);
void descriptor_publish(struct descriptor* record, int fd);

// `fd` was just made to lead where `source` leads.
void descriptor_duplicated(int source, int fd);
// Any socket may have arrived as `fd`.
void descriptor_arrived(int fd);

// Makes the stat of a socket that stands for a device look like one of the device; false: it is none.
bool descriptor_disguise(int fd, struct stat* st);

#endif
