// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One datagram of a client that may say anything: first byte: whether it is an administrator.
#include "netlink/rdma/conversation.h"
#include "tests/netlink/fake_model.h"

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t* data,
                                                                             size_t size) {
  using namespace uroce::netlink;
  if (size == 0) return 0;
  FakeModel model;
  Conversation conversation(model, 1);
  conversation.on_datagram({data + 1, size - 1}, (data[0] & 1) != 0);
  for (int i = 0; i < 10'000 && conversation.next() != nullptr; ++i) conversation.sent();
  return 0;
}
