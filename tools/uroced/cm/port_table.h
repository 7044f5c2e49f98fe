// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which identifier has which port: a space of 65,536 ports for each of RDMA_PS_TCP, UDP, IPOIB and IB, apart
// from the kernel's own. The rules are those of the kernel's rdma_cm. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "tools/uroced/cm/address.h"

namespace uroce::cm {

struct PortUser {
  uint32_t id = 0;
  Address address;  // with its port
  bool reuse = false;
  bool own_family_only = false;
};

class PortTable {
 public:
  struct Range {
    uint16_t first = 32768, last = 60999;
  };

  // Takes the port that the address names. 0; EADDRINUSE: another has this very address; EADDRNOTAVAIL: one
  // of the two is a wildcard.
  int take(uint16_t space, const PortUser& user);
  // Takes a free one of the range and writes it to user.address; `start` is where the search begins.
  // EADDRNOTAVAIL: there is none.
  int take_any(uint16_t space, PortUser& user, Range range, uint32_t start);
  // Whether a user that has its port already may listen on it: alone, whatever was agreed about reuse.
  int may_listen(uint16_t space, const PortUser& user) const;
  void give_back(uint16_t space, uint16_t port, uint32_t id);

  // The listener's candidates.
  std::span<const PortUser> users(uint16_t space, uint16_t port) const;
  // Of one that has the port: what it has agreed to has changed, or its address was chosen.
  void update(uint16_t space, const PortUser& user);

 private:
  int conflict(uint16_t space, const PortUser& user, bool reuse) const;

  std::map<std::pair<uint16_t, uint16_t>, std::vector<PortUser>> ports_;
};

}  // namespace uroce::cm
