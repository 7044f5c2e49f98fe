// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/route/lookup.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

#include <cerrno>
#include <cstring>

#include "netlink/route/gid_address.h"

namespace uroce::netlink {

namespace {

void put_gid(nl_msg& message, int type, const wire::Gid& gid) {
  const auto bytes = address_bytes(gid);
  nla_put(&message, type, static_cast<int>(bytes.size()), bytes.data());
}

std::optional<wire::Gid> gid_in(const nlattr* attribute, int family) {
  if (attribute == nullptr) return std::nullopt;
  return gid_of(family,
                {static_cast<const uint8_t*>(nla_data(attribute)), static_cast<size_t>(nla_len(attribute))});
}

// An IPv4 route may lead through an IPv6 neighbour.
std::optional<wire::Gid> gid_in_via(const nlattr* attribute) {
  if (attribute == nullptr || nla_len(attribute) < static_cast<int>(sizeof(rtvia))) return std::nullopt;
  const auto* via = static_cast<const rtvia*>(nla_data(attribute));
  const size_t bytes = static_cast<size_t>(nla_len(attribute)) - offsetof(rtvia, rtvia_addr);
  return gid_of(via->rtvia_family, {via->rtvia_addr, bytes});
}

bool leads_somewhere(uint8_t route_type) {
  return route_type != RTN_BLACKHOLE && route_type != RTN_UNREACHABLE && route_type != RTN_PROHIBIT &&
         route_type != RTN_THROW;
}

std::optional<RouteResult> route_in(nlmsghdr* answer, const wire::Gid& destination, const wire::Gid& source) {
  nlattr* attributes[RTA_MAX + 1] = {};
  if (answer->nlmsg_type != RTM_NEWROUTE ||
      nlmsg_parse(answer, sizeof(rtmsg), attributes, RTA_MAX, nullptr) != 0) {
    return std::nullopt;
  }
  const auto& route = *static_cast<const rtmsg*>(nlmsg_data(answer));
  if (!leads_somewhere(route.rtm_type)) return std::nullopt;
  RouteResult result;
  result.ifindex = attributes[RTA_OIF] == nullptr ? 0 : nla_get_u32(attributes[RTA_OIF]);
  result.local = route.rtm_type == RTN_LOCAL;
  result.source = gid_in(attributes[RTA_PREFSRC], route.rtm_family).value_or(source);
  result.next_hop = destination;
  if (const auto gateway = gid_in(attributes[RTA_GATEWAY], route.rtm_family)) result.next_hop = *gateway;
  if (const auto gateway = gid_in_via(attributes[RTA_VIA])) result.next_hop = *gateway;
  return result;
}

}  // namespace

std::optional<RouteResult> look_up_route(KernelLine& line, const wire::Gid& destination,
                                         const wire::Gid& source, uint32_t ifindex) {
  const bool has_source = !source.is_zero();
  if (has_source && family_of(source) != family_of(destination)) {
    errno = EAFNOSUPPORT;
    return std::nullopt;
  }
  const Message request(nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST));
  const auto bits = static_cast<uint8_t>(address_bytes(destination).size() * 8);
  rtmsg head{};
  head.rtm_family = static_cast<uint8_t>(family_of(destination));
  head.rtm_dst_len = bits;
  head.rtm_src_len = has_source ? bits : 0;
  nlmsg_append(request.get(), &head, sizeof head, NLMSG_ALIGNTO);
  put_gid(*request, RTA_DST, destination);
  if (has_source) put_gid(*request, RTA_SRC, source);
  if (ifindex != 0) nla_put_u32(request.get(), RTA_OIF, ifindex);

  std::optional<RouteResult> result;
  const int error =
      line.ask(*request, [&](nlmsghdr* answer) { result = route_in(answer, destination, source); });
  if (error != 0 || !result) {
    errno = error != 0 ? error : ENETUNREACH;
    return std::nullopt;
  }
  return result;
}

std::optional<std::array<uint8_t, 6>> look_up_neighbour(KernelLine& line, const wire::Gid& address,
                                                        uint32_t ifindex) {
  constexpr unsigned kValid = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;
  const Message request(nlmsg_alloc_simple(RTM_GETNEIGH, NLM_F_REQUEST));
  ndmsg head{};
  head.ndm_family = static_cast<uint8_t>(family_of(address));
  head.ndm_ifindex = static_cast<int>(ifindex);
  nlmsg_append(request.get(), &head, sizeof head, NLMSG_ALIGNTO);
  put_gid(*request, NDA_DST, address);

  std::optional<std::array<uint8_t, 6>> mac;
  line.ask(*request, [&](nlmsghdr* answer) {
    nlattr* attributes[NDA_MAX + 1] = {};
    if (answer->nlmsg_type != RTM_NEWNEIGH ||
        nlmsg_parse(answer, sizeof(ndmsg), attributes, NDA_MAX, nullptr) != 0) {
      return;
    }
    const auto& entry = *static_cast<const ndmsg*>(nlmsg_data(answer));
    const nlattr* link_address = attributes[NDA_LLADDR];
    if ((entry.ndm_state & kValid) == 0 || link_address == nullptr || nla_len(link_address) != 6) return;
    std::memcpy(mac.emplace().data(), nla_data(link_address), mac->size());
  });
  return mac;
}

}  // namespace uroce::netlink
