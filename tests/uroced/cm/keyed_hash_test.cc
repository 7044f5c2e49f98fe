// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/cm/keyed_hash.h"

#include <gtest/gtest.h>

namespace uroce::cm {
namespace {

// The reference vectors of SipHash-2-4: key 00 01 .. 0f, message 00 01 .. of 8 and of 16 bytes.
TEST(KeyedHash, is_siphash) {
  const HashKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(keyed_hash<1>(key, {0x0706050403020100}), 0x93f5f5799a932462u);
  EXPECT_EQ(keyed_hash<2>(key, {0x0706050403020100, 0x0f0e0d0c0b0a0908}), 0x3f2acc7f57c29bdbu);
}

TEST(KeyedHash, uses_have_keys_of_their_own) {
  EXPECT_NE(HashKey::from(1, 1).low, HashKey::from(1, 2).low);
  EXPECT_NE(HashKey::from(1, 1).low, HashKey::from(2, 1).low);
  EXPECT_NE(HashKey::from(1, 1).low, HashKey::from(1, 1).high);
}

}  // namespace
}  // namespace uroce::cm
