// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/descriptor.h"

#include "kmod-shim/preload/path.h"
#include "kmod-shim/preload/process.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/signals.h"

_Atomic uint16_t descriptor_hints[DESCRIPTOR_NUMBERS];

static struct descriptor records[DESCRIPTOR_RECORDS];
static _Atomic uint32_t records_touched;  // all beyond were never used
static _Atomic int highest_hint = -1;
static _Atomic uint32_t numbers_arrived;  // by which numbers lead to records that had others before
static const uint64_t claimed = ~UINT64_C(0);

static _Atomic uint16_t* hint_of(int fd) {
  return &descriptor_hints[(unsigned)fd < DESCRIPTOR_NUMBERS ? (unsigned)fd : DESCRIPTOR_NUMBERS - 1];
}

static struct descriptor* find_socket(const struct stat* st, uint32_t guess) {
  const uint32_t count = atomic_load_explicit(&records_touched, memory_order_acquire);
  for (uint32_t i = 0; i <= count; ++i) {
    const uint32_t at = i == 0 ? guess : i - 1;
    struct descriptor* record = &records[at];
    if (at < count && atomic_load_explicit(&record->inode, memory_order_acquire) == st->st_ino &&
        record->device == st->st_dev) {
      return record;
    }
  }
  return NULL;
}

struct descriptor* descriptor_verify(int fd) {
  struct stat st;
  if (raw_fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode)) return NULL;
  const uint16_t hint = atomic_load_explicit(hint_of(fd), memory_order_relaxed);
  return find_socket(&st, hint == 0 ? 0 : hint - 1u);
}

static void set_hint(int fd, const struct descriptor* record) {
  atomic_store_explicit(hint_of(fd), (uint16_t)(record - records + 1), memory_order_relaxed);
  int highest = atomic_load(&highest_hint);
  while (highest < fd && !atomic_compare_exchange_weak(&highest_hint, &highest, fd)) {
  }
}

static void set_another_hint(int fd, const struct descriptor* record) {
  set_hint(fd, record);
  atomic_fetch_add(&numbers_arrived, 1);
}

static void release(struct descriptor* record) {
  if (record->kind == DESCRIPTOR_UVERBS) connection_drop(&record->connection);
  if (record->kind == DESCRIPTOR_RDMA_CM) kept_drop(&record->rdma_cm.line);
  atomic_store_explicit(&record->inode, 0, memory_order_release);
}

// Frees the records that no number leads to any more.
static void sweep(void) {
  static uint64_t unreached[DESCRIPTOR_RECORDS];  // their inodes; guarded by the lock
  const uint32_t arrivals = atomic_load(&numbers_arrived);
  const uint32_t count = atomic_load(&records_touched);
  // One that is published only after this has its number in time to be seen by the next sweep.
  for (uint32_t i = 0; i < count; ++i) unreached[i] = atomic_load(&records[i].inode);
  const int highest = atomic_load(&highest_hint);
  for (int fd = 0; fd <= highest; ++fd) {
    const struct descriptor* record = descriptor_of(fd);
    if (record != NULL) unreached[record - records] = 0;
  }
  // A descriptor may have gone from a number not yet looked at to one behind us.
  if (atomic_load(&numbers_arrived) != arrivals) return;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t inode = unreached[i];
    if (inode != 0 && inode != claimed && atomic_load(&records[i].inode) == inode &&
        atomic_load(&records[i].users) == 0)
      release(&records[i]);
  }
}

static struct descriptor* free_record(void) {
  const uint32_t count = atomic_load(&records_touched);
  for (uint32_t i = 0; i < count; ++i) {
    if (atomic_load(&records[i].inode) == 0) return &records[i];
  }
  if (count == DESCRIPTOR_RECORDS) return NULL;
  atomic_store_explicit(&records_touched, count + 1, memory_order_release);
  return &records[count];
}

static struct descriptor* claim(uint64_t device, enum descriptor_kind kind) {
  // Where the numbers are another process's, nothing can be said of ours.
  if (!process_is_borrowed()) sweep();
  struct descriptor* record = free_record();
  if (record == NULL) return NULL;
  atomic_store(&record->inode, claimed);
  record->device = device;
  record->generation = process_generation();
  record->kind = kind;
  switch (kind) {
    case DESCRIPTOR_UVERBS: record->connection = (struct connection){.minor = 0}; break;
    case DESCRIPTOR_RDMA_CM: record->rdma_cm = (struct rdma_cm_channel){.number = 0}; break;
    case DESCRIPTOR_NETLINK: record->netlink_port = 0; break;
  }
  return record;
}

struct descriptor* descriptor_claim(int fd, enum descriptor_kind kind) {
  struct stat st;
  if (raw_fstat(fd, &st) != 0) return NULL;
  struct process_state* process = process_state();
  process_generation();
  struct descriptor* record = NULL;
  const uint64_t signals = signals_block();
  if (lock_take(&process->descriptors)) {
    record = claim(st.st_dev, kind);
    lock_give(&process->descriptors);
  }
  signals_restore(signals);
  return record;
}

void descriptor_publish(struct descriptor* record, int fd) {
  struct stat st = {.st_ino = 0};
  raw_fstat(fd, &st);
  set_hint(fd, record);
  atomic_store_explicit(&record->inode, st.st_ino, memory_order_release);
}

void descriptor_duplicated(int source, int fd) {
  if (fd < 0 || fd == source) return;
  const struct descriptor* record = descriptor_of(source);
  if (record != NULL) set_another_hint(fd, record);
}

void descriptor_arrived(int fd) {
  if (fd < 0 || atomic_load_explicit(&records_touched, memory_order_relaxed) == 0) return;
  struct stat st;
  if (raw_fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode)) return;
  const struct descriptor* record = find_socket(&st, 0);
  if (record != NULL) set_another_hint(fd, record);
}

bool descriptor_disguise(int fd, struct stat* st) {
  const struct descriptor* record = descriptor_of(fd);
  if (record == NULL || record->kind == DESCRIPTOR_NETLINK) return false;
  st->st_mode = S_IFCHR | 0666;
  st->st_rdev = record->kind == DESCRIPTOR_UVERBS
                    ? path_device_number(PATH_NODE_UVERBS, record->connection.minor)
                    : path_device_number(PATH_NODE_RDMA_CM, 0);
  st->st_size = 0;
  return true;
}
