// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The channel to the kernel module, where one is loaded: /dev/uroce as calls. Protocol:
// kmod-shim/uapi/uroce_channel.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kmod-shim/uapi/uroce_channel.h"
#include "tools/uroced/keeper_line.h"

namespace uroce::daemon {

class ModuleChannel {
 public:
  // The earlier worker's, else a new one, given to the keeper: the module sees one daemon, whoever works.
  // nullptr: there is no module (`why` is empty), or it does not let us.
  static std::unique_ptr<ModuleChannel> open(KeeperLine& keeper, std::string& why);

  int descriptor() const { return fd_.get(); }  // readable: MADs or news wait

  bool set_ready(bool ready);
  uroce_channel_news take_news();
  // The link with the next greater index; UROCE_CHANNEL_FIRST: the first one.
  std::optional<uroce_channel_device> device_after(uint32_t index) const;
  // 0, or the errno that says whose the slot is not.
  int find_slot(uint32_t slot, uint64_t cookie, uroce_channel_slot& found) const;
  bool release_slot(uint32_t slot);

  bool read(uroce_channel_mad& mad);  // false: there is none
  bool write(const uroce_channel_mad& mad);

 private:
  explicit ModuleChannel(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace uroce::daemon
