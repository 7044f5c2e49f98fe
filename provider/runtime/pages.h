// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Reading uroced's device page (seqlock) and writing our slot page.
#pragma once

#include <cstdint>
#include <string>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "provider/engine/engine.h"
#include "provider/transport/transport.h"

namespace uroce::runtime {

// A consistent view of a page another process writes. Copyable; the page outlives it.
class DevicePageReader {
 public:
  explicit DevicePageReader(const uroce_device_page* page) : page_(page) {}
  uint32_t sequence() const { return __atomic_load_n(&page_->sequence, __ATOMIC_ACQUIRE); }
  uint32_t ifindex() const { return __atomic_load_n(&page_->ifindex, __ATOMIC_RELAXED); }
  void copy(uroce_device_page& out) const;
  // False: the slot is empty or there is no such slot.
  bool gid(uint32_t index, uroce_gid_entry& out) const;
  bool has_gid(const wire::Gid& gid) const;

 private:
  template <typename Read>
  void consistently(Read&& read) const;
  const uroce_device_page* page_;
};

// Copies counters to where uroced reads them.
void publish_counters(uroce_slot_page& page, const engine::Counters& engine,
                      const transport::Counters& transport, uint64_t foreign_destination);
void publish_qp_state(uroce_slot_page& page, wire::Qpn qpn, uint32_t state);
void publish_transport_text(uroce_slot_page& page, const std::string& text);

}  // namespace uroce::runtime
