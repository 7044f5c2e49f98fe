// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/async_events.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

constexpr size_t kMostWaiting = 4096;

bool send_record(int fd, const ib_uverbs_async_event_desc& record) {
  ssize_t n;
  do {
    n = send(fd, &record, sizeof record, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  // A program that has closed its end wants no events: as good as sent.
  return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace

bool AsyncEvents::make_pair(uint32_t slot, Pair& out) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  out.program_end.reset(ends[0]);
  out.far_end.reset(ends[1]);
  drop(slot);
  Queue& queue = queues_[slot];
  queue.far_end.reset(fcntl(ends[1], F_DUPFD_CLOEXEC, 0));
  return queue.far_end && keeper_.keep(Keep::async_far_end, slot, ends[1]);
}

void AsyncEvents::adopt(uint32_t slot) {
  if (Fd fd = keeper_.take_inherited(Keep::async_far_end, slot); fd) queues_[slot].far_end = std::move(fd);
}

void AsyncEvents::drop(uint32_t slot) {
  if (queues_.erase(slot) != 0) keeper_.drop(Keep::async_far_end, slot);
}

void AsyncEvents::raise(uint32_t slot, uint32_t event_type, uint64_t element) {
  const auto at = queues_.find(slot);
  if (at == queues_.end()) return;
  Queue& queue = at->second;
  const ib_uverbs_async_event_desc record{element, event_type, 0};
  if (queue.waiting.empty() && send_record(queue.far_end.get(), record)) return;
  if (queue.waiting.size() >= kMostWaiting) {
    spdlog::warn("slot {} does not read its asynchronous events: event {} is dropped", slot, event_type);
    return;
  }
  queue.waiting.push_back(record);
  if (queue.watch == nullptr) {
    queue.watch =
        std::make_unique<FdWatch>(loop_, queue.far_end.get(), nullptr, [this, slot] { flush(slot); });
  }
  queue.watch->want_writable(true);
}

void AsyncEvents::flush(uint32_t slot) {
  const auto at = queues_.find(slot);
  if (at == queues_.end()) return;
  Queue& queue = at->second;
  while (!queue.waiting.empty() && send_record(queue.far_end.get(), queue.waiting.front()))
    queue.waiting.pop_front();
  if (queue.waiting.empty()) queue.watch->want_writable(false);
}

}  // namespace uroce::daemon
