// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/message_builder.h"

#include <libmnl/libmnl.h>

#include <cstring>

namespace uroce::netlink {

void MessageBuilder::note(bool fitted) {
  overflowed_ = overflowed_ || !fitted;
  if (!empty()) end_ = message_ + MNL_ALIGN(message()->nlmsg_len);
}

void MessageBuilder::start(uint16_t type, uint16_t flags, uint32_t seq, uint32_t port) {
  if (overflowed_ || end_ + MNL_NLMSG_HDRLEN > buffer_.size()) {
    overflowed_ = true;
    return;
  }
  message_ = end_;
  nlmsghdr* header = mnl_nlmsg_put_header(message());
  header->nlmsg_type = type;
  header->nlmsg_flags = flags;
  header->nlmsg_seq = seq;
  header->nlmsg_pid = port;
  end_ = message_ + MNL_NLMSG_HDRLEN;
}

void MessageBuilder::u8(rdma_nldev_attr type, uint8_t value) {
  bytes(static_cast<uint16_t>(type), {&value, sizeof value});
}

void MessageBuilder::u32(rdma_nldev_attr type, uint32_t value) {
  bytes(static_cast<uint16_t>(type), {reinterpret_cast<const uint8_t*>(&value), sizeof value});
}

void MessageBuilder::u64(rdma_nldev_attr type, uint64_t value) {
  bytes(static_cast<uint16_t>(type), {reinterpret_cast<const uint8_t*>(&value), sizeof value});
}

void MessageBuilder::text(rdma_nldev_attr type, const std::string& value) {
  bytes(static_cast<uint16_t>(type), {reinterpret_cast<const uint8_t*>(value.c_str()), value.size() + 1});
}

void MessageBuilder::bytes(uint16_t type, std::span<const uint8_t> value) {
  if (!overflowed_) note(mnl_attr_put_check(message(), room(), type, value.size(), value.data()));
}

void MessageBuilder::payload(const void* data, size_t size) {
  const bool fits = !overflowed_ && message()->nlmsg_len + MNL_ALIGN(size) <= room();
  if (fits) std::memcpy(mnl_nlmsg_put_extra_header(message(), size), data, size);
  note(fits);
}

MessageBuilder::Table MessageBuilder::open_table(rdma_nldev_attr type) {
  if (overflowed_) return 0;
  const nlattr* table = mnl_attr_nest_start_check(message(), room(), static_cast<uint16_t>(type));
  note(table != nullptr);
  return table == nullptr ? 0 : static_cast<size_t>(reinterpret_cast<const uint8_t*>(table) - buffer_.data());
}

void MessageBuilder::close_table(Table table) {
  if (!overflowed_) mnl_attr_nest_end(message(), reinterpret_cast<nlattr*>(buffer_.data() + table));
}

MessageBuilder::Mark MessageBuilder::mark() const {
  return {message_, end_, empty() ? 0 : message()->nlmsg_len};
}

void MessageBuilder::rewind(const Mark& mark) {
  message_ = mark.message;
  end_ = mark.end;
  if (!empty()) message()->nlmsg_len = mark.length;
  overflowed_ = false;
}

Bytes MessageBuilder::take() {
  Bytes out(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(end_));
  message_ = end_ = 0;
  overflowed_ = false;
  return out;
}

}  // namespace uroce::netlink
