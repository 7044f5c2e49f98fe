// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/dump_writer.h"

namespace uroce::netlink {

void DumpWriter::start_message() {
  page_.start(request_.header->nlmsg_type, NLM_F_MULTI, request_.header->nlmsg_seq, request_.port);
}

void DumpWriter::flush() {
  if (table_) page_.close_table(*table_);
  table_.reset();
  if (!page_.empty()) pages_.push_back(page_.take());
}

bool DumpWriter::next_page() {
  flush();
  full_ = pages_.size() >= kMostPages;
  return !full_;
}

bool DumpWriter::message(const Fill& fill) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto before = page_.mark();
    start_message();
    fill(page_);
    if (!page_.overflowed()) return true;
    page_.rewind(before);
    if (!next_page()) return false;
  }
  return true;  // larger than a page: left out
}

bool DumpWriter::try_entry(rdma_nldev_attr type, const Fill& fill) {
  const auto before = page_.mark();
  const auto entry = page_.open_table(type);
  fill(page_);
  page_.close_table(entry);
  if (!page_.overflowed()) return true;
  page_.rewind(before);
  return false;
}

bool DumpWriter::entry(const DeviceView& device, rdma_nldev_attr table, rdma_nldev_attr type,
                       const Fill& fill) {
  if (table_ && try_entry(type, fill)) return true;
  if (!next_page()) return false;
  start_message();
  put_device_handle(page_, device);
  table_ = page_.open_table(table);
  try_entry(type, fill);
  return true;
}

void DumpWriter::done(int error) {
  const auto put = [&] {
    const int told = -error;
    page_.start(NLMSG_DONE, NLM_F_MULTI, request_.header->nlmsg_seq, request_.port);
    page_.payload(&told, sizeof told);
  };
  if (table_) page_.close_table(*table_);
  table_.reset();
  const auto before = page_.mark();
  put();
  if (page_.overflowed()) {
    page_.rewind(before);
    flush();
    put();
  }
  flush();
}

}  // namespace uroce::netlink
