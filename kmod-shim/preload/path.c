// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/path.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "kmod-shim/preload/raw.h"
#include "kmod-shim/uapi/uroce_daemon.h"

struct component {
  const char* start;
  size_t length;
};

// The next name of the path; empty at its end. "." and repeated slashes are skipped.
static struct component next_component(const char** rest) {
  const char* p = *rest;
  for (;;) {
    while (*p == '/') ++p;
    if (p[0] == '.' && (p[1] == '/' || p[1] == '\0')) {
      ++p;
      continue;
    }
    break;
  }
  const char* end = p;
  while (*end != '/' && *end != '\0') ++end;
  *rest = end;
  return (struct component){.start = p, .length = (size_t)(end - p)};
}

static bool is(struct component c, const char* name) {
  return strlen(name) == c.length && memcmp(c.start, name, c.length) == 0;
}

static bool begins(struct component c, const char* prefix) {
  const size_t length = strlen(prefix);
  return c.length >= length && memcmp(c.start, prefix, length) == 0;
}

static bool sysfs_is_rdma(const char* rest) {
  const struct component group = next_component(&rest);
  if (is(group, "class")) {
    const struct component class = next_component(&rest);
    if (begins(class, "infiniband")) return true;
    return is(class, "misc") && is(next_component(&rest), "rdma_cm");
  }
  // Where realpath() of a link in the class directories leads.
  if (!is(group, "devices") || !is(next_component(&rest), "platform")) return false;
  return begins(next_component(&rest), "uroce.");
}

bool path_is_rdma(const char* given) {
  if (given == NULL || given[0] != '/') return false;
  const char* rest = given;
  const struct component top = next_component(&rest);
  if (is(top, "sys")) return sysfs_is_rdma(rest);
  return is(top, "dev") && is(next_component(&rest), "infiniband");
}

// "uverbs12" -> 12
static bool uverbs_number(struct component name, uint32_t* number) {
  if (!begins(name, "uverbs") || name.length < 7 || name.length > 10) return false;
  uint32_t value = 0;
  for (size_t i = 6; i < name.length; ++i) {
    if (name.start[i] < '0' || name.start[i] > '9') return false;
    value = value * 10 + (uint32_t)(name.start[i] - '0');
  }
  *number = value;
  return true;
}

static enum path_node node_of(const char* given, uint32_t* number) {
  const char* rest = given;
  if (!is(next_component(&rest), "dev") || !is(next_component(&rest), "infiniband")) return PATH_NODE_NONE;
  const struct component name = next_component(&rest);
  if (*rest != '\0') return PATH_NODE_NONE;
  if (is(name, "rdma_cm")) return PATH_NODE_RDMA_CM;
  return uverbs_number(name, number) ? PATH_NODE_UVERBS : PATH_NODE_NONE;
}

bool path_place(const char* given, struct path* out, char* buffer) {
  struct world world;
  *out = (struct path){.redirected = false};
  if (!world_get(&world)) return false;
  const size_t length = strlen(given);
  if (world.tree_length + length >= PATH_MAX) return false;
  memcpy(buffer, world.tree, world.tree_length);
  memcpy(buffer + world.tree_length, given, length + 1);
  out->tree_length = world.tree_length;
  return true;
}

// The tree shows what the host itself has as links that lead out of it: there the program gets the real
// thing, so that what it reads of it (a link's text, say) is the kernel's.
static bool follow_to_host(char* buffer) {
  char target[PATH_MAX];
  const long length = RAW(SYS_readlinkat, AT_FDCWD, buffer, target, sizeof target - 1);
  if (length <= 0 || target[0] != '/') return false;
  memcpy(buffer, target, (size_t)length);
  buffer[length] = '\0';
  return true;
}

const char* path_resolve(const char* given, struct path* out, char* buffer) {
  struct stat st;
  if (!path_place(given, out, buffer)) return given;
  if (raw_stat_at(AT_FDCWD, buffer, &st, AT_SYMLINK_NOFOLLOW) != 0) return given;
  if (S_ISLNK(st.st_mode) && follow_to_host(buffer)) return buffer;
  out->redirected = true;
  if (S_ISREG(st.st_mode)) out->node = node_of(given, &out->number);
  return buffer;
}

uint64_t path_device_number(enum path_node node, uint32_t number) {
  if (node == PATH_NODE_RDMA_CM) return makedev(UROCE_RDMA_CM_MAJOR, UROCE_RDMA_CM_MINOR);
  return makedev(UROCE_UVERBS_MAJOR, UROCE_UVERBS_MINOR(number));
}

void path_disguise(const struct path* path, struct stat* st) {
  if (path->node == PATH_NODE_NONE) return;
  st->st_mode = S_IFCHR | 0666;
  st->st_rdev = path_device_number(path->node, path->number);
  st->st_size = 0;
}

size_t path_tree_prefix(const char* name) {
  struct world world;
  if (name == NULL || !world_get(&world)) return 0;
  if (strncmp(name, world.tree, world.tree_length) != 0) return 0;
  const char* rest = name + world.tree_length;
  return strncmp(rest, "/sys/", 5) == 0 || strncmp(rest, "/dev/", 5) == 0 ? world.tree_length : 0;
}
