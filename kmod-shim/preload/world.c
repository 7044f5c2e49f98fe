// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/world.h"

#include <string.h>
#include <time.h>

#include "kmod-shim/preload/autostart.h"
#include "kmod-shim/preload/daemon_line.h"
#include "kmod-shim/preload/numbers.h"
#include "kmod-shim/preload/process.h"
#include "kmod-shim/preload/raw.h"
#include "kmod-shim/preload/signals.h"

static const uint64_t remembered_ms = 1000;

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

static uint64_t current_netns(void) {
  struct stat st;
  return raw_stat_at(AT_FDCWD, "/proc/thread-self/ns/net", &st, 0) == 0 ? st.st_ino : 0;
}

// A squatter may never answer.
static const int stranger_timeout_ms = 1000;

static bool is_stranger(const struct world* world) {
  return !daemon_is_trusted(world->daemon_uid, world->euid);
}

// In the daemon's own words, unless they are a stranger's.
static void refuse(struct world* out, const struct ucred* owner, const char* text) {
  if (!is_stranger(out) && text[0] != '\0') {
    memcpy(out->refusal, text, sizeof out->refusal - 1);
    return;
  }
  const uint32_t numbers[] = {owner->uid, (uint32_t)owner->pid, out->euid};
  const bool unknown = owner->uid == UROCE_OVERFLOW_UID && !daemon_users_are_known();
  numbers_format(out->refusal, sizeof out->refusal,
                 unknown ? UROCE_FOREIGN_DAEMON_FORMAT UROCE_OVERFLOW_NOTE : UROCE_FOREIGN_DAEMON_FORMAT,
                 numbers);
}

// 0, or a positive errno: ECONNREFUSED when there is no daemon of that name, EAGAIN when it makes way.
static int ask_daemon(uint32_t name_uid, struct world* out) {
  struct ucred owner;
  out->daemon_uid = UINT32_MAX;  // nobody's: who does not accept may be a stranger
  const int fd = daemon_connect_to(name_uid, &owner);
  if (fd < 0) return -fd;
  out->daemon_uid = owner.uid;
  const bool stranger = is_stranger(out), squats = stranger && name_uid != DAEMON_COMMON_NAME;
  struct uroce_hello_reply reply = {.pid = 0};
  int error = squats     ? EPERM
              : stranger ? daemon_hello_within(fd, UROCE_ROLE_WORLD, 0, &reply, stranger_timeout_ms)
                         : daemon_hello(fd, UROCE_ROLE_WORLD, 0, &reply);
  raw_close(fd);
  if (error < 0) error = -error;
  if (error == ECONNRESET || error == EPIPE) return ECONNREFUSED;  // it was about to leave
  if (stranger && error != EAGAIN) error = EPERM;
  if (error == EPERM || error == EAGAIN) refuse(out, &owner, reply.text);
  if (error == 0 && (reply.tree[0] != '/' || reply.tree[1] == '\0')) error = EPROTO;
  if (error != 0) return error;
  out->daemon_name = name_uid;
  out->netlink_port = reply.netlink_port;
  out->tree_length = (uint32_t)strlen(reply.tree);
  memcpy(out->tree, reply.tree, sizeof out->tree);
  return 0;
}

// A stranger's process with a name that says otherwise does not hide a daemon behind it.
static int ask_any_daemon(struct world* out) {
  const uint32_t names[] = {out->euid, 0, DAEMON_COMMON_NAME};
  int error = ECONNREFUSED;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (i == 1 && out->euid == 0) continue;
    const int answer = ask_daemon(names[i], out);
    if (answer == ECONNREFUSED) continue;
    error = answer;
    if (!is_stranger(out)) break;
  }
  return error;
}

static void ask(struct world* out) {
  out->error = ask_any_daemon(out);
  if (out->error == ECONNREFUSED || out->error == EAGAIN) {
    // Where it fails, another user may have been first.
    autostart_daemon();
    out->error = ask_any_daemon(out);
    if (out->error == ECONNREFUSED) out->error = ENOENT;
    if (out->error == EAGAIN) out->error = EPERM;
  }
  out->asked_ms = now_ms();
}

// A daemon that leaves takes its tree along.
static bool tree_is_there(const struct world* world) {
  struct stat st;
  return world->error == 0 && raw_stat_at(AT_FDCWD, world->tree, &st, 0) == 0;
}

// Also what root was told before the program gave up root: what it has open belongs to that world, and the
// daemon would refuse to tell the new user of it. The other way round, a user's world is nothing for root.
static bool is_known(const struct world* world, uint64_t netns, uint32_t euid) {
  return world->asked_ms != 0 && world->netns == netns && (world->euid == euid || world->euid == 0) &&
         tree_is_there(world);
}

static bool must_ask(const struct world* world, bool known, uint64_t netns, uint32_t euid) {
  if (known && world->euid != euid) return false;
  if (!known && world->error == 0) return true;
  return world->netns != netns || world->euid != euid || now_ms() - world->asked_ms >= remembered_ms;
}

static bool get(struct world* out, bool fresh) {
  struct process_state* process = process_state();
  process_generation();
  const uint64_t signals = signals_block();
  if (!lock_take(&process->world)) {
    signals_restore(signals);
    out->error = EAGAIN;
    return false;
  }
  struct world* cached = &process->cached;
  const uint64_t netns = current_netns();
  const uint32_t euid = (uint32_t)RAW(SYS_geteuid);
  const bool known = is_known(cached, netns, euid);
  if (fresh || must_ask(cached, known, netns, euid)) {
    *out = (struct world){.netns = netns, .euid = euid};
    ask(out);
    // Refused, or no descriptor left to ask with: that takes nothing away.
    if (!known || out->error == 0 || out->error == ENOENT) *cached = *out;
    cached->asked_ms = out->asked_ms;
  }
  *out = *cached;
  lock_give(&process->world);
  signals_restore(signals);
  return out->error == 0;
}

bool world_get(struct world* out) {
  return get(out, false);
}

bool world_ask(struct world* out) {
  return get(out, true);
}
