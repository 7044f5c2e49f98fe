// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The calls that look at a path without opening it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "kmod-shim/preload/next.h"
#include "kmod-shim/preload/path.h"

ssize_t __readlink_chk(const char* path, char* out, size_t length, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char* path, char* out, size_t length, size_t room);
char* __realpath_chk(const char* path, char* out, size_t room);

EXPORT int access(const char* given, int mode) {
  PATH_FOR(given);
  return NEXT(access)(name, mode);
}

EXPORT int euidaccess(const char* given, int mode) {
  PATH_FOR(given);
  return NEXT(euidaccess)(name, mode);
}

EXPORT int eaccess(const char* given, int mode) {
  PATH_FOR(given);
  return NEXT(eaccess)(name, mode);
}

EXPORT int faccessat(int dirfd, const char* given, int mode, int flags) {
  PATH_FOR(given);
  return NEXT(faccessat)(dirfd, name, mode, flags);
}

EXPORT ssize_t readlink(const char* given, char* out, size_t length) {
  PATH_FOR(given);
  return NEXT(readlink)(name, out, length);
}

EXPORT ssize_t readlinkat(int dirfd, const char* given, char* out, size_t length) {
  PATH_FOR(given);
  return NEXT(readlinkat)(dirfd, name, out, length);
}

EXPORT ssize_t __readlink_chk(const char* given, char* out, size_t length, size_t room) {
  PATH_FOR(given);
  return NEXT(__readlink_chk)(name, out, length, room);
}

EXPORT ssize_t __readlinkat_chk(int dirfd, const char* given, char* out, size_t length, size_t room) {
  PATH_FOR(given);
  return NEXT(__readlinkat_chk)(dirfd, name, out, length, room);
}

EXPORT int chdir(const char* given) {
  PATH_FOR(given);
  return NEXT(chdir)(name);
}

// The program asked about /sys and gets an answer in /sys, from which it may go on.
static char* without_tree(char* result, const struct path* path) {
  if (result == NULL || !path->redirected) return result;
  const size_t prefix = path_tree_prefix(result);
  if (prefix != 0) memmove(result, result + prefix, strlen(result + prefix) + 1);
  return result;
}

EXPORT char* realpath(const char* given, char* out) {
  PATH_FOR(given);
  return without_tree(NEXT(realpath)(name, out), &path);
}

EXPORT char* __realpath_chk(const char* given, char* out, size_t room) {
  PATH_FOR(given);
  return without_tree(NEXT(__realpath_chk)(name, out, room), &path);
}

EXPORT char* canonicalize_file_name(const char* given) {
  PATH_FOR(given);
  return without_tree(NEXT(canonicalize_file_name)(name), &path);
}

EXPORT int inotify_add_watch(int fd, const char* given, uint32_t mask) {
  PATH_FOR(given);
  return NEXT(inotify_add_watch)(fd, name, mask);
}

// `ls -l` asks these of every name.
EXPORT ssize_t getxattr(const char* given, const char* attribute, void* value, size_t size) {
  PATH_FOR(given);
  return NEXT(getxattr)(name, attribute, value, size);
}

EXPORT ssize_t lgetxattr(const char* given, const char* attribute, void* value, size_t size) {
  PATH_FOR(given);
  return NEXT(lgetxattr)(name, attribute, value, size);
}

EXPORT ssize_t listxattr(const char* given, char* list, size_t size) {
  PATH_FOR(given);
  return NEXT(listxattr)(name, list, size);
}

EXPORT ssize_t llistxattr(const char* given, char* list, size_t size) {
  PATH_FOR(given);
  return NEXT(llistxattr)(name, list, size);
}
