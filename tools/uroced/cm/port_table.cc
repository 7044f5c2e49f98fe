// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/cm/port_table.h"

#include <algorithm>
#include <cerrno>

namespace uroce::cm {

namespace {

// Link-local addresses are the same only on the same netdev.
bool same_address(const Address& a, const Address& b) {
  return a.ip == b.ip && (!a.ip.is_link_local() || a.scope == b.scope);
}

}  // namespace

std::span<const PortUser> PortTable::users(uint16_t space, uint16_t port) const {
  const auto found = ports_.find({space, port});
  return found == ports_.end() ? std::span<const PortUser>() : found->second;
}

int PortTable::conflict(uint16_t space, const PortUser& user, bool reuse) const {
  for (const PortUser& other : users(space, user.address.port)) {
    if (other.id == user.id || (reuse && other.reuse)) continue;
    if (user.own_family_only && other.own_family_only && user.address.family != other.address.family)
      continue;
    if (user.address.is_any() || other.address.is_any()) return EADDRNOTAVAIL;
    if (same_address(user.address, other.address)) return EADDRINUSE;
  }
  return 0;
}

int PortTable::take(uint16_t space, const PortUser& user) {
  if (const int error = conflict(space, user, user.reuse); error != 0) return error;
  ports_[{space, user.address.port}].push_back(user);
  return 0;
}

int PortTable::take_any(uint16_t space, PortUser& user, Range range, uint32_t start) {
  const uint32_t count = static_cast<uint32_t>(range.last) - range.first + 1;
  for (uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(range.first + (start + i) % count);
    if (!users(space, port).empty()) continue;
    user.address.port = port;
    return take(space, user);
  }
  return EADDRNOTAVAIL;
}

int PortTable::may_listen(uint16_t space, const PortUser& user) const {
  return conflict(space, user, false);
}

void PortTable::give_back(uint16_t space, uint16_t port, uint32_t id) {
  const auto found = ports_.find({space, port});
  if (found == ports_.end()) return;
  std::erase_if(found->second, [id](const PortUser& user) { return user.id == id; });
  if (found->second.empty()) ports_.erase(found);
}

void PortTable::update(uint16_t space, const PortUser& user) {
  const auto found = ports_.find({space, user.address.port});
  if (found == ports_.end()) return;
  for (PortUser& other : found->second) {
    if (other.id == user.id) other = user;
  }
}

}  // namespace uroce::cm
