// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/pages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace uroce::runtime {
namespace {

TEST(DevicePage, empty_and_unknown_slots_have_no_gid) {
  uroce_device_page page{};
  page.gids[3].gid[15] = 1;
  page.gids[3].ifindex = 9;
  const DevicePageReader reader(&page);
  uroce_gid_entry entry;
  EXPECT_FALSE(reader.gid(0, entry));
  EXPECT_FALSE(reader.gid(128, entry));
  EXPECT_FALSE(reader.gid(~0u, entry));
  ASSERT_TRUE(reader.gid(3, entry));
  EXPECT_EQ(entry.ifindex, 9u);
  wire::Gid gid;
  gid.raw[15] = 1;
  EXPECT_TRUE(reader.has_gid(gid));
  gid.raw[15] = 2;
  EXPECT_FALSE(reader.has_gid(gid));
}

TEST(DevicePage, reader_never_sees_half_an_update) {
  uroce_device_page page{};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint8_t v = 1; !stop; ++v) {
      __atomic_store_n(&page.sequence, page.sequence + 1, __ATOMIC_SEQ_CST);
      std::memset(page.gids, v, sizeof page.gids);
      __atomic_store_n(&page.sequence, page.sequence + 1, __ATOMIC_SEQ_CST);
      std::this_thread::yield();
    }
  });
  const DevicePageReader reader(&page);
  static uroce_device_page copy;
  for (int i = 0; i < 2000; ++i) {
    reader.copy(copy);
    for (const auto& entry : copy.gids) ASSERT_EQ(entry.gid[0], copy.gids[0].gid[0]);
  }
  stop = true;
  writer.join();
}

TEST(DevicePage, writer_that_died_inside_an_update_does_not_hang_us) {
  uroce_device_page page{};
  page.sequence = 1;
  page.port_state = 4;
  uroce_device_page copy;
  DevicePageReader(&page).copy(copy);
  EXPECT_EQ(copy.port_state, 4u);
}

TEST(SlotPage, every_drop_is_shown_somewhere) {
  static uroce_slot_page page;
  engine::Counters engine;
  transport::Counters transport;
  engine.drops[static_cast<size_t>(engine::PacketDrop::unknown_qp)] = 2;
  transport.drops[static_cast<size_t>(transport::Drop::bad_icrc)] = 3;
  transport.drops[static_cast<size_t>(transport::Drop::send_too_big)] = 4;
  transport.drops[static_cast<size_t>(transport::Drop::truncated)] = 5;
  publish_counters(page, engine, transport, 6);
  EXPECT_EQ(page.counters[UROCE_CNT_BAD_ICRC], 3u);
  EXPECT_EQ(page.counters[UROCE_CNT_SEND_ERR], 4u);
  EXPECT_EQ(page.counters[UROCE_CNT_DROPPED_PKTS], 2u + 5 + 6);
  EXPECT_EQ(page.counter_count, static_cast<uint32_t>(UROCE_CNT_COUNT));
}

}  // namespace
}  // namespace uroce::runtime
