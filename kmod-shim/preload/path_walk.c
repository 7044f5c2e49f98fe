// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Calls that read whole directories or trees inside libc. ftw and nftw show the names as the program knows
// them; fts has no place for that and shows them in uroced's tree, where they work as well.
#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>

#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/path.h"

#define SCANDIR(function, type)                                                   \
  EXPORT int function(const char* restrict given, struct type*** restrict list,   \
                      int (*select)(const struct type*),                          \
                      int (*compare)(const struct type**, const struct type**)) { \
    PATH_FOR(given);                                                              \
    return NEXT(function)(name, list, select, compare);                           \
  }
SCANDIR(scandir, dirent)
SCANDIR(scandir64, dirent64)

#define SCANDIRAT(function, type)                                                          \
  EXPORT int function(int dirfd, const char* restrict given, struct type*** restrict list, \
                      int (*select)(const struct type*),                                   \
                      int (*compare)(const struct type**, const struct type**)) {          \
    PATH_FOR(given);                                                                       \
    return NEXT(function)(dirfd, name, list, select, compare);                             \
  }
SCANDIRAT(scandirat, dirent)
SCANDIRAT(scandirat64, dirent64)

// The callbacks have no argument of their own, so what they need waits here; walks within walks put it back.
struct walk {
  size_t prefix;
  __ftw_func_t visit;
  __nftw_func_t visit_deep;
};
static __thread struct walk walk __attribute__((tls_model("initial-exec")));

static int visit(const char* name, const struct stat* st, int flag) {
  return walk.visit(name + walk.prefix, st, flag);
}

static int visit_deep(const char* name, const struct stat* st, int flag, struct FTW* where) {
  struct FTW there = *where;
  there.base -= (int)walk.prefix;
  return walk.visit_deep(name + walk.prefix, st, flag, &there);
}

static int walk_tree(const char* name, struct walk mine, int descriptors, int flags) {
  const struct walk outer = walk;
  walk = mine;
  const int result = mine.visit != NULL ? NEXT(ftw)(name, visit, descriptors)
                                        : NEXT(nftw)(name, visit_deep, descriptors, flags);
  walk = outer;
  return result;
}

EXPORT int ftw(const char* given, __ftw_func_t function, int descriptors) {
  PATH_FOR(given);
  if (!path.redirected) return NEXT(ftw)(name, function, descriptors);
  return walk_tree(name, (struct walk){.prefix = path.tree_length, .visit = function}, descriptors, 0);
}

EXPORT int nftw(const char* given, __nftw_func_t function, int descriptors, int flags) {
  PATH_FOR(given);
  if (!path.redirected) return NEXT(nftw)(name, function, descriptors, flags);
  return walk_tree(name, (struct walk){.prefix = path.tree_length, .visit_deep = function}, descriptors,
                   flags);
}

// One layout of struct stat for both names: see path_stat.c.
EXPORT int ftw64(const char* given, __ftw64_func_t function, int descriptors) {
  return ftw(given, (__ftw_func_t)(void*)function, descriptors);
}

EXPORT int nftw64(const char* given, __nftw64_func_t function, int descriptors, int flags) {
  return nftw(given, (__nftw_func_t)(void*)function, descriptors, flags);
}

typedef FTS* (*fts_function)(char* const*, int, int (*)(const FTSENT**, const FTSENT**));

enum { fts_roots_max = 32 };

static FTS* open_walk(fts_function next, char* const* given, int options,
                      int (*compare)(const FTSENT**, const FTSENT**)) {
  size_t count = 0, ours = 0;
  while (given[count] != NULL) ours += path_is_rdma(given[count++]);
  if (ours == 0 || count > fts_roots_max) return next(given, options, compare);
  char* roots[fts_roots_max + 1] = {0};
  char* buffers = malloc(ours * PATH_MAX);
  if (buffers == NULL) return NULL;
  for (size_t i = 0, used = 0; i < count; ++i) {
    roots[i] = given[i];
    struct path path;
    if (path_is_rdma(given[i])) roots[i] = (char*)path_resolve(given[i], &path, buffers + PATH_MAX * used++);
  }
  FTS* walking = next(roots, options, compare);
  const int saved = errno;
  free(buffers);
  errno = saved;
  return walking;
}

EXPORT FTS* fts_open(char* const* given, int options, int (*compare)(const FTSENT**, const FTSENT**)) {
  return open_walk(NEXT(fts_open), given, options, compare);
}

EXPORT FTS64* fts64_open(char* const* given, int options,
                         int (*compare)(const FTSENT64**, const FTSENT64**)) {
  return (FTS64*)open_walk((fts_function)(void*)NEXT(fts64_open), given, options,
                           (int (*)(const FTSENT**, const FTSENT**))(void*)compare);
}
