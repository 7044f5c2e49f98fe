// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/daemon_line.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "kmod-shim/preload/numbers.h"
#include "kmod-shim/preload/raw.h"

// A daemon that does not take a connection or answer a greeting must not hold up a program that merely looked
// at a path.
static const int hello_timeout_ms = 5000;
static const struct timeval connect_timeout = {.tv_sec = 5};

static socklen_t daemon_address(uint32_t uid, struct sockaddr_un* address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  char* const name = address->sun_path + 1;
  const size_t room = sizeof address->sun_path - 1;
  const size_t length = uid == DAEMON_COMMON_NAME
                            ? numbers_format(name, room, UROCE_DAEMON_COMMON_NAME, NULL)
                            : numbers_format(name, room, UROCE_DAEMON_NAME_FORMAT, &uid);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

// As in the first user namespace, whose map is one line.
bool daemon_users_are_known(void) {
  char map[64] = "";
  const int fd = (int)RAW(SYS_openat, AT_FDCWD, "/proc/self/uid_map", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return true;
  RAW(SYS_read, fd, map, sizeof map - 1);
  raw_close(fd);
  return strstr(map, " 4294967295\n") != NULL;
}

bool daemon_is_trusted(uint32_t owner_uid, uint32_t euid) {
  if (owner_uid == UROCE_OVERFLOW_UID && !daemon_users_are_known()) return false;
  return owner_uid == 0 || owner_uid == euid;
}

int daemon_connect_to(uint32_t name_uid, struct ucred* owner) {
  const int fd = raw_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  RAW(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &connect_timeout, sizeof connect_timeout);
  struct sockaddr_un address;
  const socklen_t length = daemon_address(name_uid, &address);
  long result;
  do {
    result = RAW(SYS_connect, fd, &address, length);
  } while (result == -EINTR);
  socklen_t bytes = sizeof *owner;
  if (result == 0) result = RAW(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, owner, &bytes);
  if (result == 0) return fd;
  raw_close(fd);
  // The time is over: an EAGAIN of ours, not one of the daemon's.
  return result == -EAGAIN ? -ETIMEDOUT : (int)result;
}

int daemon_connect(uint32_t name_uid, uint32_t euid) {
  struct ucred owner;
  const int fd = daemon_connect_to(name_uid, &owner);
  if (fd < 0 || daemon_is_trusted(owner.uid, euid)) return fd;
  raw_close(fd);
  return -EPERM;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int daemon_wait(int fd, short events, int timeout_ms) {
  const int64_t end = timeout_ms < 0 ? 0 : now_ms() + timeout_ms;
  for (;;) {
    struct pollfd waits = {.fd = fd, .events = events};
    struct timespec left, *limit = NULL;
    if (timeout_ms >= 0) {
      const int64_t remaining = end - now_ms();
      if (remaining <= 0) return -ETIMEDOUT;
      left = (struct timespec){.tv_sec = remaining / 1000, .tv_nsec = remaining % 1000 * 1000000};
      limit = &left;
    }
    const long ready = RAW(SYS_ppoll, &waits, 1, limit, NULL, 0);
    if (ready > 0) return 0;
    if (ready < 0 && ready != -EINTR && ready != -EAGAIN) return (int)ready;
  }
}

int daemon_hello(int fd, uint32_t role, uint32_t argument, struct uroce_hello_reply* reply) {
  return daemon_hello_within(fd, role, argument, reply, hello_timeout_ms);
}

int daemon_hello_within(int fd, uint32_t role, uint32_t argument, struct uroce_hello_reply* reply,
                        int timeout_ms) {
  struct {
    struct uroce_msg header;
    struct uroce_hello hello;
  } request = {
      .header = {.magic = UROCE_MSG_MAGIC, .version = UROCE_MSG_VERSION, .type = UROCE_MSG_HELLO, .seq = 1},
      .hello = {.role = role, .arg = argument, .version = UROCE_VERSION}};
  *reply = (struct uroce_hello_reply){.pid = 0};
  struct iovec out = {.iov_base = &request, .iov_len = sizeof request};
  const struct msghdr sent = {.msg_iov = &out, .msg_iovlen = 1};
  long result;
again:
  do {
    result = raw_sendmsg(fd, &sent, MSG_NOSIGNAL);
  } while (result == -EINTR);
  if (result < 0) return (int)result;

  struct uroce_msg header;
  for (;;) {
    const int waited = daemon_wait(fd, POLLIN, timeout_ms);
    if (waited != 0) return waited;
    struct iovec parts[2] = {{.iov_base = &header, .iov_len = sizeof header},
                             {.iov_base = reply, .iov_len = sizeof *reply}};
    struct msghdr got = {.msg_iov = parts, .msg_iovlen = 2};
    result = raw_recvmsg(fd, &got, MSG_DONTWAIT);
    if (result == -EAGAIN || result == -EINTR) continue;
    if (result < 0) return (int)result;
    if (result == 0) return -ECONNRESET;
    if (result < (long)sizeof header || header.magic != UROCE_MSG_MAGIC ||
        header.version != UROCE_MSG_VERSION) {
      return -EPROTO;
    }
    if (header.type == UROCE_MSG_RESTARTED) goto again;
    if (header.type == UROCE_MSG_HELLO && header.seq == request.header.seq) break;
  }
  reply->tree[sizeof reply->tree - 1] = '\0';
  reply->text[sizeof reply->text - 1] = '\0';
  if (header.status != 0) return header.status > 0 ? header.status : EPROTO;
  if (result != (long)(sizeof header + sizeof *reply)) return -EPROTO;
  return 0;
}
