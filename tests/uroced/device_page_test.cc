// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/device_page.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace uroce::daemon {
namespace {

TEST(DevicePage, that_nobody_keeps_is_an_error_and_can_be_let_go) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  KeeperLine line{Fd(ends[0]), KeptTable()};
  Fd(ends[1]).reset();  // the keeper is dead
  DevicePage page;
  std::string why;
  EXPECT_FALSE(page.open(line, 0, why));
  EXPECT_NE(why.find("keeper"), std::string::npos) << why;
  page.write([](uroce_device_page& to) { to.removed = 1; });
  EXPECT_FALSE(page.for_reader());
  page.drop(line, 0);
}

}  // namespace
}  // namespace uroce::daemon
