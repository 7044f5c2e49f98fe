// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Hands the sockets and pages of a context to the process that opened it, and carries packets that arrived in
// another slot's buffer.
#pragma once

#include <array>

#include "tools/uroced/contexts.h"
#include "tools/uroced/module_devices.h"

namespace uroce::daemon {

class Broker {
 public:
  Broker(Registry& registry, Connections& connections, Contexts& contexts, DeviceSet& devices,
         SlotGroup& slots, ModuleDevices& module)
      : registry_(registry),
        connections_(connections),
        contexts_(contexts),
        devices_(devices),
        slots_(slots),
        module_(module) {}

  void adopt();
  // What HELLO of role broker asks for. 0, or an errno with a sentence.
  struct Grant {
    int receive_socket = -1, slot_page = -1;  // owned elsewhere
    Fd device_page;
  };
  int attach(uint32_t connection, uint32_t slot, uint64_t cookie, Grant& grant, std::string& why);
  void detach(uint32_t connection);
  void relay(uint32_t connection, const Message& message);
  // The context is over: its data path is told.
  void tell_gone(uint32_t slot);

  struct Counters {
    uint64_t relayed = 0;
    uint64_t no_such_slot = 0;  // nobody is there
    uint64_t not_taken = 0;     // the process does not read fast enough
    uint64_t malformed = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  Registry& registry_;
  Connections& connections_;
  Contexts& contexts_;
  DeviceSet& devices_;
  SlotGroup& slots_;
  ModuleDevices& module_;
  std::array<uint32_t, kSlots> by_slot_{};  // connection, 0: none
  Counters counters_;
};

}  // namespace uroce::daemon
