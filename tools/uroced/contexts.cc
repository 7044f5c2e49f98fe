// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/contexts.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <iterator>

#include "tools/uroced/log.h"
#include "tools/uroced/process_scan.h"

namespace uroce::daemon {

namespace {

constexpr uint32_t kEventDeviceFatal = 8;
constexpr size_t kSpareDescriptors = 48;  // for clients without a context, and for being asked

}  // namespace

void Contexts::adopt() {
  for (uint32_t slot = UROCE_SLOT_FIRST; slot <= UROCE_SLOT_LAST; ++slot) {
    const ContextRecord& context = registry_.context(slot);
    if (context.state == SlotState::closing) close(slot);
    if (context.state != SlotState::live) continue;
    std::string why;
    events_.adopt(slot);
    if (!pages_[slot].open(keeper_, slot, why)) spdlog::warn("slot {}: {}", slot, why);
    const ConnectionRecord& connection = registry_.connection(context.connection);
    if (connection.live == 0 || connection.slot != slot) close(slot);
  }
}

std::string Contexts::descriptor_trouble() const {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const auto keeper = static_cast<pid_t>(registry_.state().keeper_pid);
  const size_t used = std::max(open_descriptors(getpid()), open_descriptors(keeper));
  if (used + kSpareDescriptors < limit.rlim_cur) return {};
  return fmt::format(
      "uroced may have {} descriptors and has {} for {} contexts: one more does not fit. Stop it (`uroce "
      "stop`), "
      "and start it again where `ulimit -Hn` is higher; {} contexts need {}",
      limit.rlim_cur, used, live(), UROCE_SLOT_LAST,
      UROCE_SLOT_LAST * UROCE_DAEMON_CONTEXT_FDS + kSpareDescriptors);
}

uint32_t Contexts::open_context(uint32_t device, uint32_t connection, std::string& why) {
  why = descriptor_trouble();
  const uint32_t slot = why.empty() ? slots_.take(why) : 0;
  if (slot == 0) {
    spdlog::warn("process {} gets no context: {}", registry_.connection(connection).pid, why);
    errno = ENOMEM;
    return 0;
  }
  uint64_t cookie = 0;
  if (getrandom(&cookie, sizeof cookie, 0) != sizeof cookie) return 0;
  return begin(slot, device, connection, cookie, why) ? slot : 0;
}

int Contexts::open_given(uint32_t slot, uint32_t device, uint32_t connection, uint64_t cookie,
                         std::string& why) {
  why = descriptor_trouble();
  if (!why.empty()) return ENOMEM;
  return slots_.take_given(slot, why) && begin(slot, device, connection, cookie, why) ? 0 : errno;
}

bool Contexts::begin(uint32_t slot, uint32_t device, uint32_t connection, uint64_t cookie, std::string& why) {
  if (!pages_[slot].open(keeper_, slot, why)) {
    spdlog::warn("process {} gets no context: {}", registry_.connection(connection).pid, why);
    errno = ENOMEM;
    return false;
  }
  ContextRecord& context = registry_.edit(registry_.context(slot));
  context.state = SlotState::live;
  context.device = device;
  context.connection = connection;
  context.pid = registry_.connection(connection).pid;
  context.cookie = cookie;
  context.opened_at = static_cast<uint64_t>(time(nullptr));
  context.first_object = context.object_count = context.fatal = 0;
  std::fill(std::begin(context.kind_counts), std::end(context.kind_counts), 0u);
  registry_.edit(registry_.connection(connection).slot) = slot;
  return true;
}

void Contexts::close(uint32_t slot) {
  const ContextRecord& context = registry_.context(slot);
  registry_.edit(context.state) = SlotState::closing;
  while (context.first_object != 0) {
    registry_.begin();
    release_object(registry_, context.first_object);
    registry_.commit();
  }
  const DeviceRecord& device = registry_.device(context.device);
  if (device.live != 0) {
    for (uint32_t i = 0; i < UROCE_CNT_COUNT; ++i)
      registry_.edit(device.retired_counters[i]) += pages_[slot].counter(i);
  }
  pages_[slot].drop(keeper_, slot);
  events_.drop(slot);
  slots_.retire(slot, connections_->duplicate_pidfd(context.connection));
}

void Contexts::port_event(uint32_t device, uint32_t event_type) {
  for_each([&](uint32_t slot, const ContextRecord& context) {
    if (context.device == device && context.fatal == 0) events_.raise(slot, event_type, 1);
  });
}

void Contexts::make_fatal(uint32_t slot) {
  const ContextRecord& context = registry_.context(slot);
  if (context.fatal != 0) return;
  registry_.edit(context.fatal) = 1;
  events_.raise(slot, kEventDeviceFatal, 0);
  connections_->send(context.connection, UROCE_MSG_GONE, 0, 0);
}

uint32_t Contexts::live() const {
  uint32_t n = 0;
  for_each([&](uint32_t, const ContextRecord&) { n++; });
  return n;
}

CounterValues Contexts::counters(uint32_t device) const {
  CounterValues sum;
  for (uint32_t i = 0; i < UROCE_CNT_COUNT; ++i) sum[i] = registry_.device(device).retired_counters[i];
  for_each([&](uint32_t slot, const ContextRecord& context) {
    if (context.device != device) return;
    for (uint32_t i = 0; i < UROCE_CNT_COUNT; ++i) sum[i] += pages_[slot].counter(i);
  });
  return sum;
}

}  // namespace uroce::daemon
