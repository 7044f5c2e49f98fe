// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Requests as clients write them, and answers taken apart, attribute by attribute.
#pragma once

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace uroce::netlink {

class RequestBytes {
 public:
  explicit RequestBytes(unsigned command, unsigned flags = 0, uint32_t seq = 77,
                        unsigned client = RDMA_NL_NLDEV);

  RequestBytes& u8(unsigned type, uint8_t value) { return raw(type, &value, sizeof value); }
  RequestBytes& u32(unsigned type, uint32_t value) { return raw(type, &value, sizeof value); }
  RequestBytes& text(unsigned type, const std::string& value) {
    return raw(type, value.c_str(), value.size() + 1);
  }
  RequestBytes& raw(unsigned type, const void* data, size_t size);

  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// A list of attributes, from a message or a table.
class AttributeList {
 public:
  AttributeList() = default;
  explicit AttributeList(std::span<const uint8_t> bytes);

  bool has(unsigned type) const { return first(type) != nullptr; }
  uint64_t number(unsigned type) const;  // fails the test when it is missing
  std::string text(unsigned type) const;
  AttributeList table(unsigned type) const;
  std::vector<AttributeList> all(unsigned type) const;
  std::vector<uint8_t> raw(unsigned type) const;
  std::vector<unsigned> types() const;

 private:
  struct Item {
    unsigned type;
    std::span<const uint8_t> value;
  };
  const Item* first(unsigned type) const;
  std::vector<Item> items_;
};

struct Message {
  nlmsghdr header{};
  std::vector<uint8_t> payload;

  unsigned command() const { return RDMA_NL_GET_OP(header.nlmsg_type); }
  AttributeList attributes() const { return AttributeList(payload); }
  // NLMSG_ERROR and NLMSG_DONE
  bool is_ack() const { return header.nlmsg_type == NLMSG_ERROR; }
  bool is_done() const { return header.nlmsg_type == NLMSG_DONE; }
  int error() const;  // positive
  std::string explanation() const;
  AttributeList ack_attributes() const;
};

// Fails the test when the datagram is not made of whole messages.
std::vector<Message> messages_in(std::span<const uint8_t> datagram);

}  // namespace uroce::netlink
