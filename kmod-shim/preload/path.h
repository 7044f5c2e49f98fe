// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which paths are RDMA's, and where in uroced's tree they are. A path that the tree does not have stays what
// it was, so what the host has itself is seen as ever.
#ifndef UROCE_PRELOAD_PATH_H
#define UROCE_PRELOAD_PATH_H

#include <alloca.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "kmod-shim/preload/world.h"

enum path_node {
  PATH_NODE_NONE,
  PATH_NODE_UVERBS,   // /dev/infiniband/uverbs<number>
  PATH_NODE_RDMA_CM,  // /dev/infiniband/rdma_cm
};

struct path {
  bool redirected;      // it is in the tree
  enum path_node node;  // the tree has a placeholder of that device there
  uint32_t number;
  size_t tree_length;  // what the tree puts before the given path
};

// Cheap for a path that is not RDMA's: no system call, no copy.
bool path_is_rdma(const char* given);

// The path to use for `given`, which is RDMA's: in the tree if it is there, else `given`. `buffer` has
// PATH_MAX bytes and outlives the use of the result. Asks uroced. errno stays as it is.
const char* path_resolve(const char* given, struct path* out, char* buffer);

// Declares `name`, what to call the next function with for `given`, and `path`, what it is. The buffer is
// taken from the stack only when it is needed: these wrappers also run on small signal stacks.
#define PATH_FOR(given)                     \
  struct path path = {.redirected = false}; \
  const char* name = (given);               \
  if (__builtin_expect(path_is_rdma(given), 0)) name = path_resolve(given, &path, alloca(PATH_MAX))

// `given`, which is RDMA's, in the tree, whether it is there or not: for patterns. False: there is no tree,
// or it is too long.
bool path_place(const char* given, struct path* out, char* buffer);

// Makes a stat of the placeholder look like one of the device.
void path_disguise(const struct path* path, struct stat* st);
uint64_t path_device_number(enum path_node node, uint32_t number);

// Length of the tree's own prefix if `name` is in the tree of the world known last, else 0. Asks nobody.
size_t path_tree_prefix(const char* name);

#endif
