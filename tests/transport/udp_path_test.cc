// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_path.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

engine::Path path_to(uint32_t host) {
  engine::Path p;
  p.source = wire::Gid::from_ipv4_be(htonl(0x7f000001));
  p.destination = wire::Gid::from_ipv4_be(htonl(host));
  return p;
}

TEST(UdpPathTable, the_same_path_has_one_id_and_as_many_references) {
  UdpSendPool pool(2);
  UdpPathTable table(pool);
  const auto a = table.intern(path_to(1));
  const auto b = table.intern(path_to(1));
  const auto c = table.intern(path_to(2));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  table.release(a);
  EXPECT_NE(table.find(b), nullptr);
  table.release(b);
  EXPECT_EQ(table.find(b), nullptr);
  EXPECT_NE(table.find(c), nullptr);
}

TEST(UdpPathTable, an_id_comes_back_late) {
  UdpSendPool pool(1);
  UdpPathTable table(pool);
  const auto first = table.intern(path_to(1));
  table.release(first);
  for (uint32_t i = 2; i < 40; ++i) {
    const auto id = table.intern(path_to(i));
    EXPECT_NE(id, first);
    table.release(id);
  }
  // But the table does not grow for ever.
  uint32_t largest = 0;
  for (uint32_t i = 100; i < 5000; ++i) {
    const auto id = table.intern(path_to(i));
    largest = std::max(largest, id.value);
    table.release(id);
  }
  EXPECT_LT(largest, 100u);
}

TEST(UdpPathTable, different_families_are_refused) {
  UdpSendPool pool(1);
  UdpPathTable table(pool);
  engine::Path p = path_to(1);
  p.source = {};
  p.source.raw[15] = 1;
  EXPECT_EQ(table.intern(p).value, 0u);
  EXPECT_EQ(errno, EINVAL);
}

TEST(UdpPathTable, ids_that_never_were_are_not_found) {
  UdpSendPool pool(1);
  UdpPathTable table(pool);
  EXPECT_EQ(table.find({0}), nullptr);
  EXPECT_EQ(table.find({77}), nullptr);
  table.release({77});
}

}  // namespace
}  // namespace uroce::transport
