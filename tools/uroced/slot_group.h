// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The receive sockets on UDP port 4791: one per slot, all in one reuseport group, where the position in the
// group is the slot. Members are made in slot order when first needed and never closed while the group lives:
// closing one would move the last member into its place and with it a living process's packets. Slot 0 is the
// control plane's own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/uroced/fd.h"
#include "tools/uroced/keeper_line.h"
#include "tools/uroced/registry.h"

namespace uroce::daemon {

class SlotGroup {
 public:
  SlotGroup(Registry& registry, KeeperLine& keeper);

  // Takes the port: slot 0. 0, or an errno and what to tell the person (EADDRINUSE: who has it).
  int open_port(std::string& why);
  bool is_open() const { return !sockets_.empty(); }
  // The kernel module hands out the slots here: open_port() is refused, and take() is not called.
  void give_to_module() { of_module_ = true; }
  bool belongs_to_module() const { return of_module_; }
  int open_port_for_module(std::string& why) { return bind_port(why); }

  // A slot that nobody uses, its socket made and empty. 0 with errno ENOMEM and `why` when there is none.
  uint32_t take(std::string& why);
  // The slot that the module gave to somebody. False: `why`.
  bool take_given(uint32_t slot, std::string& why);
  int socket_of(uint32_t slot) const { return sockets_[slot].get(); }

  // The context is gone: what still arrives is dropped, and the slot waits until no process can read its
  // socket any more. `holder`: pidfd of the owner.
  void retire(uint32_t slot, Fd holder);
  // Slots whose holders are gone become clean. Walks /proc.
  void review_quarantine();
  bool anything_quarantined() const;

  int receive_buffer() const { return receive_buffer_; }  // bytes that the kernel gave
  uint64_t dropped_by_control_slot() const;

 private:
  int bind_port(std::string& why);
  void make_fresh(uint32_t slot);
  int grow_to(uint32_t slot, std::string& why);
  int steer(std::string& why);
  void note_receive_buffer();
  uint32_t find_clean() const;

  Registry& registry_;
  KeeperLine& keeper_;
  std::vector<Fd> sockets_;
  size_t steered_ = 0;              // sockets that packets are steered to
  std::map<uint32_t, Fd> holders_;  // of quarantined slots
  bool ipv6_ = true;
  bool of_module_ = false;
  int receive_buffer_ = 0;
};

}  // namespace uroce::daemon
