// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/command.h"

#include <poll.h>
#include <string.h>

#include "kmod-shim/preload/daemon_line.h"
#include "kmod-shim/preload/raw.h"

int command_parse(const void* bytes, size_t count, struct command* out) {
  struct ib_uverbs_cmd_hdr header;
  if (count < sizeof header) return -EINVAL;
  memcpy(&header, bytes, sizeof header);
  *out = (struct command){.bytes = bytes,
                          .count = count,
                          .number = header.command & IB_USER_VERBS_CMD_COMMAND_MASK,
                          .extended = (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0,
                          .payload = sizeof header};
  if (!out->extended) {
    // Every legacy request that has an answer begins with the address for it.
    out->response_room = header.out_words * 4u;
    if (out->response_room != 0 && !command_request(out, &out->response, sizeof out->response))
      return -EINVAL;
    return 0;
  }
  struct ib_uverbs_ex_cmd_hdr more;
  if (!command_request(out, &more, sizeof more)) return -EINVAL;
  out->payload += sizeof more;
  out->response = more.response;
  out->response_room = more.response == 0 ? 0 : (header.out_words + more.provider_out_words) * 8u;
  return 0;
}

bool command_request(const struct command* command, void* out, size_t length) {
  if (command->count < command->payload + length) return false;
  memcpy(out, (const char*)command->bytes + command->payload, length);
  return true;
}

static int send_request(int fd, uint32_t seq, const struct command* command, const void* head,
                        size_t head_length) {
  struct uroce_msg header = {
      .magic = UROCE_MSG_MAGIC, .version = UROCE_MSG_VERSION, .type = UROCE_MSG_COMMAND, .seq = seq};
  struct iovec parts[3] = {
      {.iov_base = &header, .iov_len = sizeof header},
      {.iov_base = (void*)head, .iov_len = head_length},
      {.iov_base = (char*)command->bytes + head_length, .iov_len = command->count - head_length}};
  const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
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
static long receive(int fd, struct uroce_msg* header, struct reply* reply) {
  struct iovec parts[2] = {{.iov_base = header, .iov_len = sizeof *header},
                           {.iov_base = reply->bytes, .iov_len = sizeof reply->bytes}};
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  struct msghdr message = {
      .msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
  for (;;) {
    const long got = raw_recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got == -EAGAIN) {
      daemon_wait(fd, POLLIN, -1);
    } else if (got != -EINTR) {
      if (got > 0) take_descriptors(&message, reply);
      return got;
    }
  }
}

int command_exchange(struct connection* connection, int fd, const struct command* command, const void* head,
                     size_t head_length, struct reply* reply) {
  if (command->count > UROCE_MSG_MAX - sizeof(struct uroce_msg)) return -EINVAL;
  const uint32_t seq = ++connection->seq;
  int error = send_request(fd, seq, command, head, head_length);
  while (error == 0) {
    struct uroce_msg header;
    reply->program_end = reply->far_end = -1;
    const long got = receive(fd, &header, reply);
    const bool sound =
        got >= (long)sizeof header && header.magic == UROCE_MSG_MAGIC && header.version == UROCE_MSG_VERSION;
    if (!sound || header.type == UROCE_MSG_GONE) {
      close_descriptors(reply);
      error = -EIO;
    } else if (header.type == UROCE_MSG_RESTARTED) {
      error = send_request(fd, seq, command, head, head_length);
    } else if (header.type == UROCE_MSG_COMMAND && header.seq == seq) {
      reply->length = (uint32_t)got - (uint32_t)sizeof header;
      if (header.status == 0) return 0;
      close_descriptors(reply);
      return header.status > 0 ? -header.status : -EIO;
    } else {
      close_descriptors(reply);  // the second answer to a request that a restart made us repeat
    }
  }
  if (error == -EIO) atomic_store(&connection->gone, true);
  return error;
}

void command_respond(const struct command* command, const struct reply* reply) {
  if (command->response == 0) return;
  const size_t length = reply->length < command->response_room ? reply->length : command->response_room;
  memcpy((void*)(uintptr_t)command->response, reply->bytes, length);
}
