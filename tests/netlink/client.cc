// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/netlink/client.h"

#include <gtest/gtest.h>

namespace uroce::netlink {

RequestBytes::RequestBytes(unsigned command, unsigned flags, uint32_t seq, unsigned client) {
  nlmsghdr header{};
  header.nlmsg_len = sizeof header;
  header.nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(client, command));
  header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  header.nlmsg_seq = seq;
  bytes_.resize(sizeof header);
  std::memcpy(bytes_.data(), &header, sizeof header);
}

RequestBytes& RequestBytes::raw(unsigned type, const void* data, size_t size) {
  nlattr attribute{static_cast<uint16_t>(sizeof attribute + size), static_cast<uint16_t>(type)};
  const size_t at = bytes_.size();
  bytes_.resize(at + NLA_ALIGN(attribute.nla_len));
  std::memcpy(bytes_.data() + at, &attribute, sizeof attribute);
  if (size != 0) std::memcpy(bytes_.data() + at + sizeof attribute, data, size);
  const auto length = static_cast<uint32_t>(bytes_.size());
  std::memcpy(bytes_.data(), &length, sizeof length);
  return *this;
}

AttributeList::AttributeList(std::span<const uint8_t> bytes) {
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr attribute;
    std::memcpy(&attribute, bytes.data(), sizeof attribute);
    if (attribute.nla_len < sizeof attribute || attribute.nla_len > bytes.size()) {
      ADD_FAILURE() << "an attribute of " << attribute.nla_len << " bytes where " << bytes.size()
                    << " are left";
      return;
    }
    items_.push_back({attribute.nla_type & static_cast<unsigned>(NLA_TYPE_MASK),
                      bytes.subspan(sizeof attribute, attribute.nla_len - sizeof attribute)});
    bytes = bytes.subspan(std::min<size_t>(NLA_ALIGN(attribute.nla_len), bytes.size()));
  }
  EXPECT_TRUE(bytes.empty());
}

const AttributeList::Item* AttributeList::first(unsigned type) const {
  for (const Item& item : items_) {
    if (item.type == type) return &item;
  }
  return nullptr;
}

uint64_t AttributeList::number(unsigned type) const {
  const Item* item = first(type);
  uint64_t value = 0;
  if (item == nullptr || item->value.size() > sizeof value) {
    ADD_FAILURE() << "no number " << type;
    return 0;
  }
  std::memcpy(&value, item->value.data(), item->value.size());
  return value;
}

std::string AttributeList::text(unsigned type) const {
  const Item* item = first(type);
  if (item == nullptr || item->value.empty() || item->value.back() != 0) {
    ADD_FAILURE() << "no text " << type;
    return "";
  }
  return reinterpret_cast<const char*>(item->value.data());
}

AttributeList AttributeList::table(unsigned type) const {
  const Item* item = first(type);
  if (item == nullptr) {
    ADD_FAILURE() << "no table " << type;
    return {};
  }
  return AttributeList(item->value);
}

std::vector<AttributeList> AttributeList::all(unsigned type) const {
  std::vector<AttributeList> out;
  for (const Item& item : items_) {
    if (item.type == type) out.emplace_back(item.value);
  }
  return out;
}

std::vector<uint8_t> AttributeList::raw(unsigned type) const {
  const Item* item = first(type);
  return item == nullptr ? std::vector<uint8_t>()
                         : std::vector<uint8_t>(item->value.begin(), item->value.end());
}

std::vector<unsigned> AttributeList::types() const {
  std::vector<unsigned> out;
  for (const Item& item : items_) out.push_back(item.type);
  return out;
}

int Message::error() const {
  int value = 0;
  if (payload.size() < sizeof value) {
    ADD_FAILURE() << "no error code";
    return -1;
  }
  std::memcpy(&value, payload.data(), sizeof value);
  return -value;
}

AttributeList Message::ack_attributes() const {
  if ((header.nlmsg_flags & NLM_F_ACK_TLVS) == 0) return {};
  EXPECT_NE(header.nlmsg_flags & NLM_F_CAPPED, 0);
  return AttributeList(std::span(payload).subspan(sizeof(nlmsgerr)));
}

std::string Message::explanation() const {
  const AttributeList list = ack_attributes();
  return list.has(NLMSGERR_ATTR_MSG) ? list.text(NLMSGERR_ATTR_MSG) : "";
}

std::vector<Message> messages_in(std::span<const uint8_t> datagram) {
  std::vector<Message> out;
  while (!datagram.empty()) {
    Message message;
    if (datagram.size() < sizeof message.header) {
      ADD_FAILURE() << datagram.size() << " bytes behind the last message";
      break;
    }
    std::memcpy(&message.header, datagram.data(), sizeof message.header);
    const size_t length = message.header.nlmsg_len;
    if (length < sizeof message.header || length > datagram.size()) {
      ADD_FAILURE() << "a message of " << length << " bytes where " << datagram.size() << " are left";
      break;
    }
    message.payload.assign(datagram.begin() + sizeof message.header,
                           datagram.begin() + static_cast<std::ptrdiff_t>(length));
    out.push_back(std::move(message));
    datagram = datagram.subspan(std::min<size_t>(NLMSG_ALIGN(length), datagram.size()));
  }
  return out;
}

}  // namespace uroce::netlink
