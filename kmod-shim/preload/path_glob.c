// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// glob() reads directories behind every wrapper: it gets the pattern in the tree, the program gets the names
// outside it.
#include <glob.h>
#include <string.h>

#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/path.h"

_Static_assert(sizeof(glob_t) == sizeof(glob64_t), "one layout for both names");

typedef int (*glob_function)(const char*, int, int (*)(const char*, int), void*);

// What the program has put in place itself reads what it likes.
static bool is_for_tree(const char* pattern, int flags) {
  return path_is_rdma(pattern) && (flags & GLOB_ALTDIRFUNC) == 0;
}

static void strip_names(glob_t* found, size_t first, size_t prefix) {
  for (size_t i = first; i < found->gl_pathc; ++i) {
    char* name = found->gl_pathv[found->gl_offs + i];
    if (strlen(name) >= prefix) memmove(name, name + prefix, strlen(name + prefix) + 1);
  }
}

// 0: the tree has matches, and they are in `out`.
static int glob_tree(glob_function next, const char* pattern, int flags, int (*on_error)(const char*, int),
                     glob_t* out) {
  struct path path;
  char* place = alloca(PATH_MAX);
  if (!path_place(pattern, &path, place)) return GLOB_NOMATCH;
  const size_t first = (flags & GLOB_APPEND) != 0 ? out->gl_pathc : 0;
  if ((flags & GLOB_DOOFFS) == 0 && (flags & GLOB_APPEND) == 0) out->gl_offs = 0;
  const int result = next(place, flags & ~(GLOB_NOCHECK | GLOB_NOMAGIC), on_error, out);
  if (result == 0) strip_names(out, first, path.tree_length);
  return result;
}

EXPORT int glob(const char* restrict pattern, int flags, int (*on_error)(const char*, int),
                glob_t* restrict out) {
  const glob_function next = (glob_function)NEXT(glob);
  if (is_for_tree(pattern, flags) && glob_tree(next, pattern, flags, on_error, out) == 0) return 0;
  return next(pattern, flags, on_error, out);
}

EXPORT int glob64(const char* restrict pattern, int flags, int (*on_error)(const char*, int),
                  glob64_t* restrict out) {
  const glob_function next = (glob_function)NEXT(glob64);
  if (is_for_tree(pattern, flags) && glob_tree(next, pattern, flags, on_error, (glob_t*)out) == 0) return 0;
  return next(pattern, flags, on_error, out);
}
