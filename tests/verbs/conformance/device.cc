// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/verbs/conformance/device.h"

#include <time.h>

namespace conformance {

void Device::SetUp() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_GT(count, 0) << "no device: run me inside a world (tests/verbs/conformance.py)";
  context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ASSERT_NE(context, nullptr);
  ASSERT_EQ(ibv_query_device(context, &limits), 0);
  pd.reset(ibv_alloc_pd(context));
  ASSERT_NE(pd, nullptr);
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(ibv_query_gid(context, 1, i, &gid), 0);
    const ibv_gid zero{};
    if (std::memcmp(&gid, &zero, sizeof(gid)) == 0 || gid.raw[0] == 0xfe) continue;
    gid_index = static_cast<uint8_t>(i);
    return;
  }
  FAIL() << "no GID of an address";
}

void Device::TearDown() {
  pd.reset();
  if (context != nullptr) {
    EXPECT_EQ(ibv_close_device(context), 0);
  }
}

ibv_qp_init_attr Device::init_attributes(ibv_qp_type type, ibv_cq* queue) const {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = queue;
  init.cap = {16, 16, 4, 4, 64};
  init.qp_type = type;
  return init;
}

std::vector<ibv_wc> await(ibv_cq* cq, int count) {
  std::vector<ibv_wc> all;
  const time_t start = time(nullptr);
  while (static_cast<int>(all.size()) < count && time(nullptr) - start < 20) {
    ibv_wc wc;
    const int got = ibv_poll_cq(cq, 1, &wc);
    EXPECT_GE(got, 0);
    if (got > 0) all.push_back(wc);
  }
  EXPECT_EQ(static_cast<int>(all.size()), count) << "completions are missing";
  return all;
}

}  // namespace conformance
