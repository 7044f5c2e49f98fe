// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Opened contexts, one per slot: from GET_CONTEXT until the connection or the process behind it is gone.
#pragma once

#include <array>

#include "tools/uroced/async_events.h"
#include "tools/uroced/connections.h"
#include "tools/uroced/device_page.h"
#include "tools/uroced/device_set.h"
#include "tools/uroced/slot_group.h"
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

class Contexts final : public UverbsHost {
 public:
  Contexts(Registry& registry, KeeperLine& keeper, SlotGroup& slots, AsyncEvents& events)
      : registry_(registry), keeper_(keeper), slots_(slots), events_(events) {}

  void connect(Connections& connections, DeviceSet& devices) {
    connections_ = &connections;
    devices_ = &devices;
  }
  // After a restart, when connections and devices are adopted: takes over live ones and ends those that
  // nobody stands behind.
  void adopt();

  uint32_t open_context(uint32_t device, uint32_t connection, std::string& why) override;
  // For a slot that the kernel module has given to the process behind the connection. 0 or errno.
  int open_given(uint32_t slot, uint32_t device, uint32_t connection, uint64_t cookie, std::string& why);
  DeviceFacts facts(uint32_t device) const override { return devices_->facts(device); }

  // Frees everything of the slot.
  void close(uint32_t slot);
  // To every context of the device: an event for port 1.
  void port_event(uint32_t device, uint32_t event_type);
  // DEVICE_FATAL; commands other than taking apart answer EIO from here on.
  void make_fatal(uint32_t slot);

  uint32_t live() const;
  template <typename Visit>  // Visit(uint32_t slot, const ContextRecord&)
  void for_each(Visit&& visit) const {
    for (uint32_t slot = UROCE_SLOT_FIRST; slot <= UROCE_SLOT_LAST; ++slot) {
      if (registry_.context(slot).state == SlotState::live) visit(slot, registry_.context(slot));
    }
  }
  const SlotPage& page(uint32_t slot) const { return pages_[slot]; }
  // Of all contexts of the device, those that are gone included.
  CounterValues counters(uint32_t device) const;

  // Empty, or why one more context would leave too few descriptors for what else must go on.
  std::string descriptor_trouble() const;

 private:
  bool begin(uint32_t slot, uint32_t device, uint32_t connection, uint64_t cookie, std::string& why);

  Registry& registry_;
  KeeperLine& keeper_;
  SlotGroup& slots_;
  AsyncEvents& events_;
  Connections* connections_ = nullptr;
  DeviceSet* devices_ = nullptr;
  std::array<SlotPage, kSlots> pages_;
};

}  // namespace uroce::daemon
