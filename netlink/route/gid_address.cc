// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/route/gid_address.h"

#include <sys/socket.h>

namespace uroce::netlink {

int family_of(const wire::Gid& gid) {
  return gid.is_ipv4() ? AF_INET : AF_INET6;
}

std::span<const uint8_t> address_bytes(const wire::Gid& gid) {
  return std::span(gid.raw).subspan(gid.is_ipv4() ? 12 : 0);
}

std::optional<wire::Gid> gid_of(int family, std::span<const uint8_t> bytes) {
  wire::Gid gid;
  if (family == AF_INET && bytes.size() == 4) {
    uint32_t address;
    std::memcpy(&address, bytes.data(), sizeof address);
    return wire::Gid::from_ipv4_be(address);
  }
  if (family == AF_INET6 && bytes.size() == gid.raw.size()) {
    std::memcpy(gid.raw.data(), bytes.data(), gid.raw.size());
    return gid;
  }
  return std::nullopt;
}

std::optional<wire::Gid> gid_of(const nl_addr& address) {
  return gid_of(nl_addr_get_family(&address),
                {static_cast<const uint8_t*>(nl_addr_get_binary_addr(&address)), nl_addr_get_len(&address)});
}

}  // namespace uroce::netlink
