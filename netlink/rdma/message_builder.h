// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Netlink messages, one behind the other, in a buffer that never grows: what does not fit is remembered, not
// written.
#pragma once

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace uroce::netlink {

using Bytes = std::vector<uint8_t>;

// What stock clients read at once is a page (libmnl's buffer); the kernel's own messages leave room for its
// bookkeeping.
constexpr size_t kDatagramBytes = 3776;

class MessageBuilder {
 public:
  MessageBuilder() : buffer_(kDatagramBytes) {}

  // The open message ends where the next one starts.
  void start(uint16_t type, uint16_t flags, uint32_t seq, uint32_t port);

  void u8(rdma_nldev_attr type, uint8_t value);
  void u32(rdma_nldev_attr type, uint32_t value);
  void u64(rdma_nldev_attr type, uint64_t value);
  void text(rdma_nldev_attr type, const std::string& value);
  void bytes(uint16_t type, std::span<const uint8_t> value);
  void payload(const void* data, size_t size);  // behind the header, before any attribute

  // A table holds the attributes put between open and close. Tables nest.
  using Table = size_t;
  Table open_table(rdma_nldev_attr type);
  void close_table(Table table);

  bool overflowed() const { return overflowed_; }
  bool empty() const { return end_ == 0; }

  // Takes back everything since the mark, overflow too.
  struct Mark {
    size_t message, end;
    uint32_t length;
  };
  Mark mark() const;
  void rewind(const Mark& mark);

  std::span<const uint8_t> written() const { return {buffer_.data(), end_}; }
  Bytes take();  // and starts afresh

 private:
  nlmsghdr* message() { return reinterpret_cast<nlmsghdr*>(buffer_.data() + message_); }
  const nlmsghdr* message() const { return reinterpret_cast<const nlmsghdr*>(buffer_.data() + message_); }
  size_t room() const { return buffer_.size() - message_; }
  void note(bool fitted);

  Bytes buffer_;
  size_t message_ = 0;  // offset of the open one
  size_t end_ = 0;
  bool overflowed_ = false;
};

}  // namespace uroce::netlink
