// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/device_facts.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce::daemon {
namespace {

TEST(DeviceFacts, active_mtu_leaves_room_for_the_headers) {
  EXPECT_EQ(active_mtu(1500), 3);  // 1024
  EXPECT_EQ(active_mtu(4200), 5);  // 4096
  EXPECT_EQ(active_mtu(4191), 4);  // one byte short
  EXPECT_EQ(active_mtu(4192), 5);
  EXPECT_EQ(active_mtu(9000), 5);
  EXPECT_EQ(active_mtu(65536), 5);
  EXPECT_EQ(active_mtu(352), 1);
  EXPECT_EQ(active_mtu(351), 0);
  EXPECT_EQ(active_mtu(0), 0);
}

TEST(DeviceFacts, rates_read_as_the_kernel_writes_them) {
  EXPECT_EQ(rate_text(rate_of_megabits(100000)), "100 Gb/sec (4X EDR)");
  EXPECT_EQ(rate_text(rate_of_megabits(10000)), "10 Gb/sec (1X FDR10)");
  EXPECT_EQ(rate_text(rate_of_megabits(1000)), "2.5 Gb/sec (1X SDR)");
  EXPECT_EQ(rate_text(rate_of_megabits(0)), "2.5 Gb/sec (1X SDR)");
  EXPECT_EQ(rate_text(rate_of_megabits(4'000'000)), "400 Gb/sec (4X NDR)");
}

TEST(DeviceFacts, every_counter_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < UROCE_CNT_COUNT; ++i) {
    EXPECT_FALSE(counter_name(i).empty());
    EXPECT_TRUE(names.insert(counter_name(i)).second) << counter_name(i);
  }
}

TEST(DeviceFacts, gid_text_has_eight_groups) {
  const uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  EXPECT_EQ(gid_text(gid), "0000:0000:0000:0000:0000:ffff:0a00:0001");
}

}  // namespace
}  // namespace uroce::daemon
