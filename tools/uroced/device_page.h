// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The page that tells every process of a device about its port and GIDs (uroce_device_page). We write, they
// read.
#pragma once

#include <functional>
#include <string>

#include "tools/uroced/fd.h"
#include "tools/uroced/keeper_line.h"

namespace uroce::daemon {

class DevicePage {
 public:
  // That of an earlier worker, else a new one, given to the keeper at once. False with `why`.
  bool open(KeeperLine& keeper, uint32_t device, std::string& why);
  void drop(KeeperLine& keeper, uint32_t device);

  bool is_open() const { return page_ != nullptr; }

  // Readers see all of the change or nothing of it. Nothing happens where open() has failed.
  void write(const std::function<void(uroce_device_page&)>& change);

  // A fresh read-only descriptor for a client.
  Fd for_reader() const;

 private:
  Fd memory_;
  uroce_device_page* page_ = nullptr;
};

// The page of a context, written by its process (uroce_slot_page); we read and trust none of it.
class SlotPage {
 public:
  SlotPage() = default;
  SlotPage(SlotPage&& other) noexcept;
  SlotPage& operator=(SlotPage&& other) noexcept;
  ~SlotPage();

  bool open(KeeperLine& keeper, uint32_t slot, std::string& why);  // as DevicePage
  void drop(KeeperLine& keeper, uint32_t slot);

  int descriptor() const { return memory_.get(); }
  uint64_t counter(uint32_t index) const;
  std::string transport_text() const;
  uroce_slot_qp qp(uint32_t index) const;

 private:
  Fd memory_;
  const uroce_slot_page* page_ = nullptr;
};

}  // namespace uroce::daemon
