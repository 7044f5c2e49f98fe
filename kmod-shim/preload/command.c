// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/command.h"

#include <errno.h>
#include <string.h>

#include "kmod-shim/uapi/uroce_daemon.h"

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

int command_exchange(struct connection* connection, int fd, const struct command* command, const void* head,
                     size_t head_length, struct reply* reply) {
  const struct iovec parts[2] = {
      {.iov_base = (void*)head, .iov_len = head_length},
      {.iov_base = (char*)command->bytes + head_length, .iov_len = command->count - head_length}};
  return exchange(&connection->exchange, fd, UROCE_MSG_COMMAND, parts, 2, reply, -1);
}

void command_respond(const struct command* command, const struct reply* reply) {
  if (command->response == 0) return;
  const size_t length = reply->length < command->response_room ? reply->length : command->response_room;
  memcpy((void*)(uintptr_t)command->response, reply->bytes, length);
}
