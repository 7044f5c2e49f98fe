// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "tools/uroced/log.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace uroce::daemon {

const Kept* KeptTable::find(Keep what, uint64_t key) const {
  const auto at = kept_.find({what, key});
  return at == kept_.end() ? nullptr : &at->second;
}

void KeptTable::put(Keep what, uint64_t key, Fd fd, size_t map_bytes) {
  drop(what, key);
  Kept kept{what, key, fd.release()};
  if (map_bytes != 0) {
    void* mapped = mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kept.fd, 0);
    if (mapped != MAP_FAILED) {
      kept.mapping = mapped;
      kept.map_bytes = map_bytes;
    }
    // From here on only mappings that exist already can write. An old kernel knows no such seal; readers get
    // a read-only descriptor anyway.
    if (fcntl(kept.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0) {
      fcntl(kept.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    }
  }
  kept_.emplace(std::pair(what, key), kept);
}

void KeptTable::drop(Keep what, uint64_t key) {
  const Kept* kept = find(what, key);
  if (kept != nullptr && kept->mapping != nullptr) munmap(kept->mapping, kept->map_bytes);
  const Fd closes = take(what, key);
}

Fd KeptTable::take(Keep what, uint64_t key) {
  const auto at = kept_.find({what, key});
  if (at == kept_.end()) return Fd();
  Fd fd(at->second.fd);
  kept_.erase(at);
  return fd;
}

namespace {

enum class Input { message, ready, worker_gone };

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
  switch (message.action) {
    case KeepMessage::ready: return Input::ready;
    case KeepMessage::drop: kept.drop(message.what, message.key); break;
    case KeepMessage::put: {
      // A descriptor gets lost on the way when our table of them is full.
      const int32_t error = fd ? 0 : EMFILE;
      if (fd) kept.put(message.what, message.key, std::move(fd), message.map_bytes);
      [[maybe_unused]] const ssize_t told = send(line, &error, sizeof error, MSG_NOSIGNAL);
      break;
    }
  }
  return Input::message;
}

int64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// Cut short by a signal.
void sleep_ms(int64_t ms) {
  const timespec time{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
}

// Being asked to end: the worker takes leave of the clients, then we follow.
volatile sig_atomic_t asked_to_end = 0;
volatile sig_atomic_t worker_pid = 0;

void pass_on(int number) {
  asked_to_end = 1;
  if (worker_pid > 0) kill(worker_pid, number);
}

class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    for (const int number : {SIGTERM, SIGINT}) {
      sigaddset(&set_, number);
      struct sigaction action {};
      action.sa_handler = pass_on;
      sigaction(number, &action, nullptr);
    }
  }
  void block() const { sigprocmask(SIG_BLOCK, &set_, nullptr); }
  void unblock() const { sigprocmask(SIG_UNBLOCK, &set_, nullptr); }

 private:
  sigset_t set_;
};

// Whether a worker that ended so has a fault in it, which the request it was busy with may have hit.
bool is_crash(int status) {
  if (!WIFSIGNALED(status)) return true;
  return WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM && WTERMSIG(status) != SIGINT;
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status)) : "it never lived";
}

struct Life {
  bool ready = false;
  int status = -1;  // as waitpid() gives it
};

// From fork to death. Signals are blocked before and after.
Life run_one(Inheritance& inheritance, const std::function<int(Inheritance&)>& worker,
             const EndSignals& signals, const std::function<void()>& ready) {
  Life life;
  int line[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) return life;
  Fd ours(line[0]), theirs(line[1]);
  const pid_t child = fork();
  if (child < 0) return life;
  if (child == 0) {
    for (const int number : {SIGTERM, SIGINT}) signal(number, SIG_DFL);
    ours.reset();
    prctl(PR_SET_NAME, "uroced-worker");
    inheritance.keeper = std::move(theirs);
    _exit(worker(inheritance));
  }
  theirs.reset();
  worker_pid = child;
  signals.unblock();
  for (Input input; (input = read_one(ours.get(), inheritance.kept)) != Input::worker_gone;) {
    if (input != Input::ready) continue;
    life.ready = true;
    ready();
  }
  signals.block();
  while (waitpid(child, &life.status, 0) < 0 && errno == EINTR) {
  }
  worker_pid = 0;
  return life;
}

}  // namespace

int run_keeper(Inheritance inheritance, const std::function<int(Inheritance&)>& worker,
               const std::function<void(int status, const std::string& text)>& started) {
  constexpr int64_t kShortLifeMs = 2000, kLongestPauseMs = 5000;
  State& state = *inheritance.state;
  state.keeper_pid = static_cast<uint32_t>(getpid());
  const EndSignals signals;
  bool announced = false;
  const auto first_is_ready = [&] {
    if (!std::exchange(announced, true)) started(0, "");
  };
  int64_t pause_ms = 0;
  signals.block();
  for (;;) {
    const int64_t began = monotonic_ms();
    const Life life = run_one(inheritance, worker, signals, first_is_ready);
    if (life.status == 0 || asked_to_end != 0) return 0;
    if (!announced) {
      inheritance.names = {};  // whoever hears of it finds the name free
      state.trouble[sizeof state.trouble - 1] = '\0';
      started(1, state.trouble[0] != '\0' ? state.trouble : "the worker process died while it started");
      return 1;
    }
    state.crashed = is_crash(life.status) ? 1 : 0;
    spdlog::error("the worker died ({}), starting another", describe(life.status));
    // At once if it was killed or has lived for long, later and later when it does not come up.
    if (life.ready && (state.crashed == 0 || monotonic_ms() - began >= kShortLifeMs)) {
      pause_ms = 0;
    } else {
      signals.unblock();
      if (asked_to_end == 0) sleep_ms(pause_ms);
      signals.block();
      if (asked_to_end != 0) return 0;
      pause_ms = std::min(kLongestPauseMs, pause_ms * 2 + 50);
    }
  }
}

}  // namespace uroce::daemon
