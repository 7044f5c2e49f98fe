// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The links of the kernel module in this network namespace. The module makes them, knows their GIDs and hands
// out slots; we give their contexts the sockets, tell their data paths what the module says, and carry the
// packets of QP 1.
//
// A link has a position among the devices, as one of ours has, and a record there that is marked as the
// module's: `live` stays 0, so that nobody else takes it for a device. Where the module is, there are no
// other devices.
#pragma once

#include <array>
#include <bitset>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/uroced/contexts.h"
#include "tools/uroced/gsi.h"
#include "tools/uroced/module_channel.h"

namespace uroce::daemon {

class ModuleDevices {
 public:
  ModuleDevices(Loop& loop, Registry& registry, KeeperLine& keeper, SlotGroup& slots, Contexts& contexts,
                std::function<void(uint32_t slot)> end_context);

  // Where the module is loaded: takes the namespace over from it. After the contexts were adopted.
  void attach();
  bool attached() const { return channel_ != nullptr; }

  // HELLO of role broker: is this the process that the module gave the slot to? Then it becomes a context.
  // 0, or an errno with a sentence.
  int claim(uint32_t connection, uint32_t slot, uint64_t cookie, std::string& why);
  // Whether the end of this connection is the end of a context of the module's.
  bool owns(uint32_t connection) const;
  Fd page_for_reader(uint32_t position) const { return pages_[position].for_reader(); }

  // Gives back what the module may hand out again; after contexts have ended.
  void release_slots();

  struct Counters {
    uint64_t sent = 0, received = 0;
    uint64_t other_qp = 0;          // MADs to another QP than the peer's QP 1
    uint64_t refused = 0;           // the module did not take a packet
    uint64_t dropped_outgoing = 0;  // by the module: we did not read fast enough
    uint64_t dropped_incoming = 0;  // by the module: its QP 1 had no buffer
  };
  const Counters& counters() const { return counters_; }
  std::vector<std::string> names() const;  // of the links

 private:
  void on_readable();
  void update_devices();
  uint32_t position_of(uint32_t index);
  void publish(uint32_t position, const uroce_channel_device& now);
  void remove(uint32_t position);
  bool find_port(const wire::Gid& destination, uint32_t ifindex, cm::Route& out) const;
  void send(const uroce_channel_mad& mad);
  void receive(const cm::Route& from, std::span<const std::byte> mad);

  bool is_ours(uint32_t position) const { return registry_.device(position).of_module != 0; }

  Loop& loop_;
  Registry& registry_;
  KeeperLine& keeper_;
  SlotGroup& slots_;
  Contexts& contexts_;
  std::function<void(uint32_t slot)> end_context_;
  Gsi gsi_;
  std::unique_ptr<ModuleChannel> channel_;
  std::unique_ptr<FdWatch> watch_;
  std::array<DevicePage, kMaxDevices> pages_;
  std::bitset<kSlots> ended_;  // slots that the module waits for
  Counters counters_;
};

}  // namespace uroce::daemon
