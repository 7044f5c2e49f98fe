// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_path.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "provider/wire/packet.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kDefaultHopLimit = 64;  // as set on the sockets

// Appends one control message.
template <typename T>
void add(UdpPath& out, int level, int type, const T& value) {
  cmsghdr header{};
  header.cmsg_len = CMSG_LEN(sizeof value);
  header.cmsg_level = level;
  header.cmsg_type = type;
  std::byte* at = out.control + out.control_bytes;
  std::memset(at, 0, CMSG_SPACE(sizeof value));
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  out.control_bytes += CMSG_SPACE(sizeof value);
}

// The interface is named only where the address alone does not tell it: it costs time per send.
uint32_t needed_interface(const engine::Path& path) {
  const bool scoped =
      path.destination.is_link_local() || path.source.is_link_local() || path.destination.is_multicast();
  return scoped ? path.ifindex : 0;
}

void resolve_ipv4(UdpPath& out) {
  const engine::Path& path = out.path;
  out.destination.in.sin_family = AF_INET;
  out.destination.in.sin_port = htons(wire::kRocePort);
  out.destination.in.sin_addr.s_addr = path.destination.ipv4_be();
  out.destination_bytes = sizeof out.destination.in;
  in_pktinfo info{};
  info.ipi_ifindex = static_cast<int>(needed_interface(path));
  info.ipi_spec_dst.s_addr = path.source.ipv4_be();
  add(out, IPPROTO_IP, IP_PKTINFO, info);
  if (path.traffic_class != 0) add(out, IPPROTO_IP, IP_TOS, int{path.traffic_class});
  if (path.hop_limit != kDefaultHopLimit || path.destination.is_multicast())
    add(out, IPPROTO_IP, IP_TTL, int{path.hop_limit});
}

void resolve_ipv6(UdpPath& out) {
  const engine::Path& path = out.path;
  out.destination.in6 = {};
  out.destination.in6.sin6_family = AF_INET6;
  out.destination.in6.sin6_port = htons(wire::kRocePort);
  std::memcpy(&out.destination.in6.sin6_addr, path.destination.raw.data(), 16);
  out.destination.in6.sin6_scope_id = needed_interface(path);
  out.destination_bytes = sizeof out.destination.in6;
  in6_pktinfo info{};
  info.ipi6_ifindex = needed_interface(path);
  std::memcpy(&info.ipi6_addr, path.source.raw.data(), 16);
  add(out, IPPROTO_IPV6, IPV6_PKTINFO, info);
  if (path.traffic_class != 0) add(out, IPPROTO_IPV6, IPV6_TCLASS, int{path.traffic_class});
  if (path.hop_limit != kDefaultHopLimit || path.destination.is_multicast())
    add(out, IPPROTO_IPV6, IPV6_HOPLIMIT, int{path.hop_limit});
}

}  // namespace

engine::PathId UdpPathTable::find_equal(const engine::Path& path) const {
  for (size_t i = 0; i < paths_.size(); ++i)
    if (paths_[i]->references > 0 && paths_[i]->path == path) return {static_cast<uint32_t>(i + 1)};
  return {};
}

engine::PathId UdpPathTable::intern(const engine::Path& path) {
  if (const engine::PathId known = find_equal(path); known.value != 0) {
    ++paths_[known.value - 1]->references;
    return known;
  }
  const bool ipv4 = path.source.is_ipv4();
  if (ipv4 != path.destination.is_ipv4()) {
    errno = EINVAL;
    return {};
  }
  if (!pool_.open(ipv4)) return {};

  auto fresh = std::make_unique<UdpPath>();
  fresh->path = path;
  fresh->references = 1;
  fresh->ipv4 = ipv4;
  if (ipv4)
    resolve_ipv4(*fresh);
  else
    resolve_ipv6(*fresh);
  for (size_t i = 0; i < pool_.size(); ++i)
    fresh->flows.emplace_back(path.source, path.destination, pool_.port(ipv4, i), wire::kRocePort);

  constexpr size_t kKeepFree = 64;
  if (free_.size() > kKeepFree) {
    const uint32_t index = free_.front();
    free_.pop_front();
    paths_[index] = std::move(fresh);
    return {index + 1};
  }
  paths_.push_back(std::move(fresh));
  return {static_cast<uint32_t>(paths_.size())};
}

void UdpPathTable::release(engine::PathId id) {
  UdpPath* path = find(id);
  if (path == nullptr || --path->references > 0) return;
  free_.push_back(id.value - 1);
}

}  // namespace uroce::transport
