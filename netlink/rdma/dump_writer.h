// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The pages of a dump: as many as may wait for one client at a time. A handler that meets "no room" stops and
// is called again later, from where it stopped.
#pragma once

#include <deque>
#include <functional>

#include "netlink/rdma/message_builder.h"
#include "netlink/rdma/request.h"

namespace uroce::netlink {

class DumpWriter {
 public:
  static constexpr size_t kMostPages = 64;

  DumpWriter(const Request& request, std::deque<Bytes>& pages) : request_(request), pages_(pages) {}

  using Fill = std::function<void(MessageBuilder&)>;

  // Both return false when there is no room now: nothing was written.
  bool message(const Fill& fill);
  // An entry of `table`, which is in a message that starts with the device's handle; full messages are
  // continued in new ones.
  bool entry(const DeviceView& device, rdma_nldev_attr table, rdma_nldev_attr type, const Fill& fill);

  bool is_full() const { return full_; }

  // Ends the dump; error as positive errno.
  void done(int error);
  // Hands over the page that is not full yet.
  void flush();

 private:
  bool next_page();
  void start_message();
  bool try_entry(rdma_nldev_attr type, const Fill& fill);

  const Request& request_;
  std::deque<Bytes>& pages_;
  MessageBuilder page_;
  std::optional<MessageBuilder::Table> table_;
  bool full_ = false;
};

}  // namespace uroce::netlink
