// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/exchange.h"

#include <poll.h>
#include <string.h>

#include "kmod-shim/preload/daemon_line.h"
#include "kmod-shim/preload/raw.h"

static int send_request(int fd, struct uroce_msg* header, const struct iovec* parts, int count) {
  struct iovec all[1 + EXCHANGE_PARTS_MAX] = {{.iov_base = header, .iov_len = sizeof *header}};
  memcpy(all + 1, parts, (size_t)count * sizeof *parts);
  const struct msghdr message = {.msg_iov = all, .msg_iovlen = (size_t)count + 1};
  for (;;) {
    const long sent = raw_sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return 0;
    if (sent == -EAGAIN) {
      daemon_wait(fd, POLLOUT, -1);
    } else if (sent != -EINTR) {
      return sent == -EPIPE || sent == -ECONNRESET ? -EIO : (int)sent;
    }
  }
}

static void take_descriptors(struct msghdr* message, struct reply* reply) {
  for (struct cmsghdr* c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (reply->program_end < 0) {
        reply->program_end = fd;
      } else if (reply->far_end < 0) {
        reply->far_end = fd;
      } else {
        raw_close(fd);
      }
    }
  }
}

static void close_descriptors(struct reply* reply) {
  if (reply->program_end >= 0) raw_close(reply->program_end);
  if (reply->far_end >= 0) raw_close(reply->far_end);
  reply->program_end = reply->far_end = -1;
}

// One message: its length, or a negative errno.
static long receive(int fd, struct uroce_msg* header, struct reply* reply, int timeout_ms) {
  struct iovec parts[2] = {{.iov_base = header, .iov_len = sizeof *header},
                           {.iov_base = reply->bytes, .iov_len = sizeof reply->bytes}};
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  struct msghdr message = {
      .msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
  for (;;) {
    const long got = raw_recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got == -EAGAIN) {
      const int waited = daemon_wait(fd, POLLIN, timeout_ms);
      if (waited == -ETIMEDOUT) return waited;
    } else if (got != -EINTR) {
      if (got > 0) take_descriptors(&message, reply);
      return got;
    }
  }
}

int exchange(struct exchange* state, int fd, uint32_t type, const struct iovec* parts, int count,
             struct reply* reply, int timeout_ms) {
  size_t length = sizeof(struct uroce_msg);
  for (int i = 0; i < count; ++i) length += parts[i].iov_len;
  if (length > UROCE_MSG_MAX) return -EINVAL;
  struct uroce_msg request = {
      .magic = UROCE_MSG_MAGIC, .version = UROCE_MSG_VERSION, .type = (uint16_t)type, .seq = ++state->seq};
  int error = send_request(fd, &request, parts, count);
  while (error == 0) {
    struct uroce_msg header;
    reply->program_end = reply->far_end = -1;
    const long got = receive(fd, &header, reply, timeout_ms);
    const bool sound =
        got >= (long)sizeof header && header.magic == UROCE_MSG_MAGIC && header.version == UROCE_MSG_VERSION;
    if (!sound || header.type == UROCE_MSG_GONE) {
      close_descriptors(reply);
      error = -EIO;
    } else if (header.type == UROCE_MSG_RESTARTED) {
      error = send_request(fd, &request, parts, count);
    } else if (header.type == type && header.seq == request.seq) {
      reply->length = (uint32_t)got - (uint32_t)sizeof header;
      if (header.status == 0) return 0;
      close_descriptors(reply);
      return header.status > 0 ? -header.status : -EIO;
    } else {
      close_descriptors(reply);  // the second answer to a request that a restart made us repeat
    }
  }
  if (error == -EIO) atomic_store(&state->gone, true);
  return error;
}
