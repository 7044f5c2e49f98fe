// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/gid_table.h"

#include <algorithm>
#include <cstring>

#include "tools/uroced/guid.h"

namespace uroce::daemon {

namespace {

constexpr int kMostLevels = 8;  // the kernel's own limit for stacked netdevs

const netlink::Link* find(uint32_t ifindex, std::span<const netlink::Link> links) {
  const auto at =
      std::find_if(links.begin(), links.end(), [&](const auto& l) { return l.ifindex == ifindex; });
  return at == links.end() ? nullptr : &*at;
}

uroce_gid_entry entry_of(const wire::Gid& gid, uint32_t ifindex) {
  uroce_gid_entry entry{};
  std::memcpy(entry.gid, gid.raw.data(), sizeof entry.gid);
  entry.ifindex = ifindex;
  return entry;
}

bool is_empty(const uroce_gid_entry& entry) {
  static constexpr uint8_t zero[16] = {};
  return std::memcmp(entry.gid, zero, sizeof zero) == 0;
}

bool same(const uroce_gid_entry& a, const uroce_gid_entry& b) {
  return std::memcmp(a.gid, b.gid, sizeof a.gid) == 0 && a.ifindex == b.ifindex;
}

}  // namespace

uint32_t real_netdev(uint32_t ifindex, std::span<const netlink::Link> links) {
  for (int level = 0; level < kMostLevels; ++level) {
    const netlink::Link* link = find(ifindex, links);
    // Others have a lower netdev too, but one of another kind: a veth's is its peer.
    if (link == nullptr || link->lower_ifindex == 0 || (link->kind != "vlan" && link->kind != "macvlan"))
      break;
    ifindex = link->lower_ifindex;
  }
  return ifindex;
}

GidSource gid_source(const netlink::Link& netdev, std::span<const netlink::Link> links,
                     std::span<const netlink::Address> addresses, bool ipv6_enabled) {
  GidSource source;
  source.reserves_default = has_own_mac(netdev);
  if (source.reserves_default && ipv6_enabled) {
    source.default_gid = entry_of(link_local_from_mac(netdev.mac), netdev.ifindex);
  }
  const auto belongs = [&](uint32_t ifindex) {
    return ifindex == netdev.ifindex || real_netdev(ifindex, links) == netdev.ifindex;
  };
  for (const netlink::Address& address : addresses) {
    if (address.tentative || address.address.is_zero() || !belongs(address.ifindex)) continue;
    const uroce_gid_entry entry = entry_of(address.address, address.ifindex);
    if (source.default_gid && same(*source.default_gid, entry)) continue;
    source.addresses.push_back(entry);
  }
  if (!source.reserves_default) {
    // Without a default GID, ::1 and the like take its place before the IPv4 addresses.
    std::stable_partition(source.addresses.begin(), source.addresses.end(), [](const uroce_gid_entry& e) {
      wire::Gid gid;
      std::memcpy(gid.raw.data(), e.gid, sizeof e.gid);
      return !gid.is_ipv4();
    });
  }
  return source;
}

GidChange update_gid_table(std::span<uroce_gid_entry, UROCE_GID_TABLE_LEN> table, const GidSource& source) {
  GidChange change;
  const auto set = [&](uroce_gid_entry& slot, const uroce_gid_entry& value) {
    if (same(slot, value)) return;
    slot = value;
    change.changed = true;
  };
  const size_t first = source.reserves_default ? 1 : 0;
  if (source.reserves_default) set(table[0], source.default_gid.value_or(uroce_gid_entry{}));

  const auto wanted = [&](const uroce_gid_entry& entry) {
    return std::any_of(source.addresses.begin(), source.addresses.end(),
                       [&](const auto& a) { return same(a, entry); });
  };
  for (size_t i = first; i < table.size(); ++i) {
    if (!is_empty(table[i]) && !wanted(table[i])) set(table[i], {});
  }
  for (const uroce_gid_entry& address : source.addresses) {
    const auto begin = table.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::any_of(begin, table.end(), [&](const auto& e) { return same(e, address); })) continue;
    const auto free = std::find_if(begin, table.end(), is_empty);
    if (free == table.end()) {
      change.without_slot++;
    } else {
      set(*free, address);
    }
  }
  return change;
}

}  // namespace uroce::daemon
