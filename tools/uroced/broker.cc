// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/broker.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace uroce::daemon {

void Broker::adopt() {
  for (uint32_t i = 1; i < kMaxConnections; ++i) {
    const ConnectionRecord& record = registry_.connection(i);
    if (record.live != 0 && record.role == UROCE_ROLE_BROKER && record.slot < kSlots)
      by_slot_[record.slot] = i;
  }
}

int Broker::attach(uint32_t connection, uint32_t slot, uint64_t cookie, Grant& grant, std::string& why) {
  const uint32_t pid = registry_.connection(connection).pid;
  if (module_.attached()) {
    if (const int error = module_.claim(connection, slot, cookie, why); error != 0) return error;
  }
  if (slot < UROCE_SLOT_FIRST || slot > UROCE_SLOT_LAST || registry_.context(slot).state != SlotState::live) {
    why = fmt::format("there is no context {} (it was closed, or uroced was started anew)", slot);
    return ENOENT;
  }
  if (registry_.connection(connection).role != 0 && registry_.connection(connection).slot != slot) {
    why = "a connection belongs to one context";
    return EINVAL;
  }
  const ContextRecord& context = registry_.context(slot);
  if (context.cookie != cookie || context.pid != pid) {
    why = fmt::format(
        "context {} belongs to process {}, not to process {}; open the device anew in this process", slot,
        context.pid, pid);
    return EPERM;
  }
  if (context.fatal != 0) {
    why = "the device was removed";
    return EIO;
  }
  grant.device_page =
      module_.attached() ? module_.page_for_reader(context.device) : devices_.page_for_reader(context.device);
  if (!grant.device_page) {
    why = fmt::format("cannot hand out the device's page: {}", std::strerror(errno));
    return ENOMEM;
  }
  grant.receive_socket = slots_.socket_of(slot);
  grant.slot_page = contexts_.page(slot).descriptor();
  registry_.edit(registry_.connection(connection).slot) = slot;
  by_slot_[slot] = connection;
  return 0;
}

void Broker::detach(uint32_t connection) {
  const uint32_t slot = registry_.connection(connection).slot;
  if (slot < kSlots && by_slot_[slot] == connection) by_slot_[slot] = 0;
}

void Broker::relay(uint32_t connection, const Message& message) {
  uroce_relay relay;
  if (message.payload.size() <= sizeof relay) {
    counters_.malformed++;
    return;
  }
  std::memcpy(&relay, message.payload.data(), sizeof relay);
  const uint32_t target = relay.slot < kSlots ? by_slot_[relay.slot] : 0;
  if (target == 0 || target == connection) {
    counters_.no_such_slot++;
  } else if (connections_.try_send(target, UROCE_MSG_RELAY, message.payload)) {
    counters_.relayed++;
  } else {
    counters_.not_taken++;
  }
}

void Broker::tell_gone(uint32_t slot) {
  if (by_slot_[slot] != 0) connections_.send(by_slot_[slot], UROCE_MSG_GONE, 0, 0);
}

}  // namespace uroce::daemon
