// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/keeper.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace uroce::daemon {

const Kept* KeptTable::find(Keep what, uint64_t key) const {
  const auto at =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.what == what && k.key == key; });
  return at == kept_.end() ? nullptr : &*at;
}

void KeptTable::put(Keep what, uint64_t key, Fd fd, size_t map_bytes) {
  drop(what, key);
  Kept kept{what, key, fd.release(), nullptr};
  if (map_bytes != 0) {
    void* mapped = mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kept.fd, 0);
    if (mapped != MAP_FAILED) kept.mapping = mapped;
    // From here on only mappings that exist already can write. An old kernel knows no such seal; readers get
    // a read-only descriptor anyway.
    if (fcntl(kept.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0) {
      fcntl(kept.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    }
  }
  kept_.push_back(kept);
}

void KeptTable::drop(Keep what, uint64_t key) {
  Fd closes = take(what, key);
}

Fd KeptTable::take(Keep what, uint64_t key) {
  const auto at =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.what == what && k.key == key; });
  if (at == kept_.end()) return Fd();
  Fd fd(at->fd);
  // Mappings are small and few (one per device that ever lived): left to the end of the process.
  *at = kept_.back();
  kept_.pop_back();
  return fd;
}

namespace {

enum class Input { message, worker_gone };

Input read_one(int line, KeptTable& kept) {
  KeepMessage message{};
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(line, &header, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return Input::worker_gone;
  Fd fd;
  if (const cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr && c->cmsg_type == SCM_RIGHTS) {
    int received;
    std::memcpy(&received, CMSG_DATA(c), sizeof received);
    fd.reset(received);
  }
  if (static_cast<size_t>(n) != sizeof message) return Input::message;
  if (message.action == KeepMessage::put && fd)
    kept.put(message.what, message.key, std::move(fd), message.map_bytes);
  if (message.action == KeepMessage::drop) kept.drop(message.what, message.key);
  return Input::message;
}

int64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void sleep_ms(int64_t ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace

int run_keeper(Inheritance inheritance, const std::function<int(Inheritance&)>& worker) {
  constexpr int64_t kShortLifeMs = 2000, kLongestPauseMs = 5000;
  inheritance.state->keeper_pid = static_cast<uint32_t>(getpid());
  int64_t pause_ms = 0;
  for (;;) {
    int line[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) return 1;
    Fd ours(line[0]), theirs(line[1]);
    const int64_t started = monotonic_ms();
    const pid_t child = fork();
    if (child == 0) {
      ours.reset();
      prctl(PR_SET_NAME, "uroced-worker");
      inheritance.keeper = std::move(theirs);
      _exit(worker(inheritance));
    }
    theirs.reset();
    if (child > 0) {
      while (read_one(ours.get(), inheritance.kept) == Input::message) {
      }
      int status = 0;
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
      std::fprintf(stderr, "uroced: the worker (pid %d) died, starting another\n", child);
    }
    // At once after a long life, later and later when it does not come up.
    if (child > 0 && monotonic_ms() - started >= kShortLifeMs) {
      pause_ms = 0;
    } else {
      sleep_ms(pause_ms);
      pause_ms = std::min(kLongestPauseMs, pause_ms * 2 + 50);
    }
  }
}

}  // namespace uroce::daemon
