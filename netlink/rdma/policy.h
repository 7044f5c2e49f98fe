// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The attributes of a request, checked once against a table of what each may look like. Unknown attributes
// are skipped, as the kernel does: newer clients send more.
#pragma once

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace uroce::netlink {

// Attribute numbers that are looked at. Not the header's own maximum: that of an older header is below what
// today's `rdma` sends.
inline constexpr size_t kAttributeNumbers = 128;

// Views into the request; valid as long as its bytes.
class Attributes {
 public:
  bool has(rdma_nldev_attr type) const { return found_[type] != nullptr; }
  std::optional<uint8_t> u8(rdma_nldev_attr type) const;
  std::optional<uint32_t> u32(rdma_nldev_attr type) const;
  std::optional<std::string> text(rdma_nldev_attr type) const;
  // Whether a nested table has any entry.
  bool has_entries(rdma_nldev_attr type) const;

 private:
  friend struct AttributeParser;
  std::array<const nlattr*, kAttributeNumbers> found_{};
};

struct AttributeFault {
  std::string text;
  uint32_t offset = 0;  // of the bad attribute, from the start of the message
};

// False with what is wrong. `message` is complete: its length was checked against the datagram.
bool parse_attributes(const nlmsghdr& message, Attributes& out, AttributeFault& fault);

}  // namespace uroce::netlink
