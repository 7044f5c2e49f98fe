// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/wire/number.h"

#include <gtest/gtest.h>

namespace uroce::wire {
namespace {

TEST(Psn, wraps_at_24_bits) {
  Psn psn(0xffffff);
  EXPECT_EQ((psn + 1).value(), 0u);
  EXPECT_EQ((Psn(0) - 1).value(), 0xffffffu);
  ++psn;
  EXPECT_EQ(psn, Psn(0));
}

TEST(Psn, distance_is_signed_over_the_wrap) {
  EXPECT_EQ(Psn(1).distance_from(Psn(0xffffff)), 2);
  EXPECT_EQ(Psn(0xffffff).distance_from(Psn(1)), -2);
  EXPECT_TRUE(Psn(0xfffff0).before(Psn(5)));
  EXPECT_TRUE(Psn(5).after(Psn(0xfffff0)));
  EXPECT_FALSE(Psn(5).after(Psn(5)));
  // Half the circle away counts as before.
  EXPECT_EQ(Psn(0x800000).distance_from(Psn(0)), -0x800000);
}

TEST(Qpn, slot_stands_in_the_top_bits) {
  const Qpn qpn = Qpn::of(1022, 0x3fff);
  EXPECT_EQ(qpn.slot(), 1022u);
  EXPECT_EQ(qpn.index(), 0x3fffu);
  EXPECT_EQ(Qpn(1).slot(), 0u);                   // the GSI belongs to the control plane
  EXPECT_EQ(Qpn(Qpn::kMulticast).slot(), 1023u);  // which no context gets
}

}  // namespace
}  // namespace uroce::wire
