// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A library that puts something of its own in the place of each UDP socket, as librspreload does. This one
// has nothing to put there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol) {
  int (*next)(int, int, int) = dlsym(RTLD_NEXT, "socket");

  if ((domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_DGRAM) {
    errno = ENOTSUP;
    return -1;
  }
  return next(domain, type, protocol);
}
