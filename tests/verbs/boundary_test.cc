// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/boundary.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace uroce::verbs {
namespace {

int count(int value) {
  if (value == 1) throw std::bad_alloc();
  if (value == 2) throw std::runtime_error("other");
  return value;
}
int* object(int value) {
  if (value == 1) throw std::bad_alloc();
  static int it;
  return value == 0 ? fail(EINVAL) : &it;
}
void nothing() {
  throw std::bad_alloc();
}

TEST(Boundary, values_pass) {
  EXPECT_EQ(Boundary<count>::call(0), 0);
  EXPECT_EQ(Boundary<count>::call(7), 7);
  EXPECT_NE(Boundary<object>::call(3), nullptr);
}

TEST(Boundary, exceptions_become_errors_of_the_functions_kind) {
  EXPECT_EQ(Boundary<count>::call(1), ENOMEM);
  EXPECT_EQ(Boundary<count>::call(2), EIO);
  errno = 0;
  EXPECT_EQ(Boundary<object>::call(1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(Boundary<object>::call(0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  Boundary<nothing>::call();
}

static_assert(noexcept(Boundary<count>::call(0)));

}  // namespace
}  // namespace uroce::verbs
