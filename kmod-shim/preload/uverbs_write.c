// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <string.h>

#include "kmod-shim/preload/channel.h"
#include "kmod-shim/preload/command.h"
#include "kmod-shim/preload/kick.h"
#include "kmod-shim/preload/object_events.h"
#include "kmod-shim/preload/process.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/refusal.h"
#include "kmod-shim/preload/signals.h"
#include "kmod-shim/preload/uverbs.h"

// The program's end goes to the program, by its number; the far end stays here.
static int take_async_queue(struct connection* connection, struct reply* reply) {
  const bool whole = reply->length >= sizeof(struct ib_uverbs_get_context_resp);
  if (reply->program_end < 0 || reply->far_end < 0 || !whole) {
    if (reply->program_end >= 0) raw_close(reply->program_end);
    if (reply->far_end >= 0) raw_close(reply->far_end);
    return whole ? -EMFILE : -EIO;  // descriptors get lost where the program's table of them is full
  }
  const uint32_t number = (uint32_t)reply->program_end;
  memcpy(reply->bytes + offsetof(struct ib_uverbs_get_context_resp, async_fd), &number, sizeof number);
  if (!lock_take(&connection->events)) return -EDEADLK;
  event_queue_drop(&connection->async);
  event_queue_adopt(&connection->async, reply->program_end, reply->far_end);
  lock_give(&connection->events);
  return 0;
}

// Why there is no context, in uroced's words.
static void tell_refusal(struct reply* reply) {
  const size_t length = reply->length < sizeof reply->bytes ? reply->length : sizeof reply->bytes - 1;
  reply->bytes[length] = '\0';
  refusal_tell(reply->bytes);
}

static bool is_get_context(const struct command* command) {
  return !command->extended && command->number == IB_USER_VERBS_CMD_GET_CONTEXT;
}

// The lock `commands` is held.
static int forward(struct connection* connection, int fd, const struct command* command) {
  struct object_change change;
  struct reply reply = {.length = 0};
  int error = object_before(connection, command, &change);
  if (error == 0) {
    error = command_exchange(connection, fd, command, change.head, change.head_length, &reply);
  }
  if (error != 0) {
    if (is_get_context(command)) tell_refusal(&reply);
    return error;
  }
  if (is_get_context(command)) {
    error = take_async_queue(connection, &reply);
  } else {
    if (reply.program_end >= 0) raw_close(reply.program_end);
    if (reply.far_end >= 0) raw_close(reply.far_end);
    object_after(connection, &change, &reply);
  }
  if (error == 0) command_respond(command, &reply);
  return error;
}

static long forward_alone(struct connection* connection, int fd, const struct command* command) {
  const uint64_t signals = signals_block();
  int error = -EDEADLK;
  if (lock_take(&connection->exchange.commands)) {
    error = atomic_load(&connection->exchange.gone) ? -EIO : forward(connection, fd, command);
    lock_give(&connection->exchange.commands);
  }
  signals_restore(signals);
  return error == 0 ? (long)command->count : error;
}

static long serve(struct connection* connection, int fd, const void* bytes, size_t count) {
  struct command command;
  const int error = command_parse(bytes, count, &command);
  if (error != 0) return error;
  if (!command.extended) {
    if (command.number == IB_USER_VERBS_CMD_PEEK_CQ) return kick(connection, &command);
    if (command.number == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) return channel_create(connection, &command);
  }
  return forward_alone(connection, fd, &command);
}

long uverbs_write(struct descriptor* device, int fd, const void* bytes, size_t count) {
  // As the kernel does: what an ancestor opened is not this process's to use.
  if (device->generation != process_generation()) return -EACCES;
  atomic_fetch_add(&device->users, 1);
  const long result = serve(&device->connection, fd, bytes, count);
  atomic_fetch_sub(&device->users, 1);
  return result;
}
