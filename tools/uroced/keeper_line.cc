// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/keeper_line.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace uroce::daemon {

namespace {

bool send_message(int line, const KeepMessage& message, int fd) {
  iovec part{const_cast<KeepMessage*>(&message), sizeof message};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  ssize_t n;
  do {
    n = sendmsg(line, &header, MSG_NOSIGNAL);  // may wait: the keeper does nothing but read
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof message);
}

}  // namespace

bool KeeperLine::keep(Keep what, uint64_t key, int fd, size_t map_bytes) {
  if (!send_message(line_.get(), {KeepMessage::put, what, key, map_bytes}, fd)) return false;
  int32_t error = 0;
  ssize_t n;
  do {
    n = recv(line_.get(), &error, sizeof error, 0);
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof error) && error == 0) return true;
  errno = n == static_cast<ssize_t>(sizeof error) ? error : EPIPE;
  return false;
}

void KeeperLine::tell_ready() {
  send_message(line_.get(), {KeepMessage::ready, {}, 0, 0}, -1);
}

void KeeperLine::discard_unclaimed() {
  while (const Kept* next = inherited_.any()) {
    const Kept unclaimed = *next;
    drop(unclaimed.what, unclaimed.key);
    inherited_.drop(unclaimed.what, unclaimed.key);
  }
}

void KeeperLine::drop(Keep what, uint64_t key) {
  send_message(line_.get(), {KeepMessage::drop, what, key, 0}, -1);
}

}  // namespace uroce::daemon
