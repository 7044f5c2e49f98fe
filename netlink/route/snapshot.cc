// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/route/snapshot.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <netlink/cache.h>
#include <netlink/errno.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "netlink/route/gid_address.h"

namespace uroce::netlink {

namespace {

struct FreeCache {
  void operator()(nl_cache* cache) const { nl_cache_free(cache); }
};
using Cache = std::unique_ptr<nl_cache, FreeCache>;

std::vector<uint8_t> mac_of(rtnl_link& link) {
  const nl_addr* address = rtnl_link_get_addr(&link);
  const unsigned type = rtnl_link_get_arptype(&link);
  // A tunnel's "hardware address" is the outer IP address.
  if (address == nullptr || (type != ARPHRD_ETHER && type != ARPHRD_LOOPBACK)) return {};
  const auto* bytes = static_cast<const uint8_t*>(nl_addr_get_binary_addr(address));
  return {bytes, bytes + nl_addr_get_len(address)};
}

Link link_of(rtnl_link& link) {
  Link out;
  out.ifindex = static_cast<uint32_t>(rtnl_link_get_ifindex(&link));
  const char* name = rtnl_link_get_name(&link);
  out.name = name == nullptr ? "" : name;
  out.mac = mac_of(link);
  out.mtu = rtnl_link_get_mtu(&link);
  const unsigned flags = rtnl_link_get_flags(&link);
  out.up = (flags & IFF_UP) != 0;
  out.running = (flags & IFF_LOWER_UP) != 0;
  out.loopback = (flags & IFF_LOOPBACK) != 0;
  const char* kind = rtnl_link_get_type(&link);
  out.kind = kind == nullptr ? "" : kind;
  int32_t other_namespace = -1;
  const bool is_here = rtnl_link_get_link_netnsid(&link, &other_namespace) != 0;
  if (is_here) out.lower_ifindex = static_cast<uint32_t>(rtnl_link_get_link(&link));
  out.master_ifindex = static_cast<uint32_t>(rtnl_link_get_master(&link));
  return out;
}

auto fields(const Link& l) {
  return std::tie(l.ifindex, l.name, l.mac, l.mtu, l.up, l.running, l.loopback, l.kind, l.lower_ifindex,
                  l.master_ifindex);
}

}  // namespace

bool operator==(const Link& a, const Link& b) {
  return fields(a) == fields(b);
}

bool operator==(const Address& a, const Address& b) {
  return std::tie(a.ifindex, a.address.raw, a.prefix, a.tentative) ==
         std::tie(b.ifindex, b.address.raw, b.prefix, b.tentative);
}

bool read_links(KernelLine& line, std::vector<Link>& out, std::string& why) {
  nl_cache* raw = nullptr;
  if (const int error = rtnl_link_alloc_cache(line.socket(), AF_UNSPEC, &raw); error < 0) {
    why = std::string("cannot list the netdevs: ") + nl_geterror(error);
    return false;
  }
  const Cache cache(raw);
  out.clear();
  for (nl_object* o = nl_cache_get_first(raw); o != nullptr; o = nl_cache_get_next(o)) {
    out.push_back(link_of(*reinterpret_cast<rtnl_link*>(o)));
  }
  std::sort(out.begin(), out.end(), [](const Link& a, const Link& b) { return a.ifindex < b.ifindex; });
  return true;
}

bool read_addresses(KernelLine& line, std::vector<Address>& out, std::string& why) {
  nl_cache* raw = nullptr;
  if (const int error = rtnl_addr_alloc_cache(line.socket(), &raw); error < 0) {
    why = std::string("cannot list the addresses: ") + nl_geterror(error);
    return false;
  }
  const Cache cache(raw);
  out.clear();
  for (nl_object* o = nl_cache_get_first(raw); o != nullptr; o = nl_cache_get_next(o)) {
    auto* entry = reinterpret_cast<rtnl_addr*>(o);
    const nl_addr* local = rtnl_addr_get_local(entry);
    const auto gid = local == nullptr ? std::nullopt : gid_of(*local);
    if (!gid) continue;
    Address address;
    address.ifindex = static_cast<uint32_t>(rtnl_addr_get_ifindex(entry));
    address.address = *gid;
    address.prefix = static_cast<uint8_t>(rtnl_addr_get_prefixlen(entry));
    const unsigned flags = rtnl_addr_get_flags(entry);
    // An optimistic address is in use while its duplicate detection runs (RFC 4429).
    const bool unsettled = (flags & IFA_F_TENTATIVE) != 0 && (flags & IFA_F_OPTIMISTIC) == 0;
    address.tentative = unsettled || (flags & IFA_F_DADFAILED) != 0;
    out.push_back(address);
  }
  return true;
}

}  // namespace uroce::netlink
