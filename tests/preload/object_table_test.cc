// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
extern "C" {
#include "kmod-shim/preload/object_table.h"
}

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace uroce::preload_test {
namespace {

class ObjectTable : public ::testing::Test {
 protected:
  ~ObjectTable() override { object_table_drop(&table_); }

  void insert(object_kind kind, uint32_t handle, uint32_t number, uint64_t user_handle) {
    ASSERT_TRUE(object_table_reserve(&table_));
    object made{};
    made.kind = kind;
    made.id = handle;
    made.number = number;
    made.user_handle = user_handle;
    object_table_insert(&table_, &made);
  }

  object_table table_{};
};

TEST_F(ObjectTable, empty__finds_nothing) {
  EXPECT_EQ(object_table_find(&table_, OBJECT_CQ, 1), nullptr);
  EXPECT_EQ(object_table_by_number(&table_, OBJECT_QP, 1, 1), nullptr);
  object_table_remove(&table_, OBJECT_CQ, 1);
}

TEST_F(ObjectTable, kinds__have_handles_of_their_own) {
  insert(OBJECT_CQ, 7, 7, 100);
  insert(OBJECT_QP, 7, 70, 200);
  EXPECT_EQ(object_table_find(&table_, OBJECT_CQ, 7)->user_handle, 100u);
  EXPECT_EQ(object_table_find(&table_, OBJECT_QP, 7)->user_handle, 200u);
  EXPECT_EQ(object_table_by_number(&table_, OBJECT_QP, 70, 200)->id, 7u);
  EXPECT_EQ(object_table_by_number(&table_, OBJECT_SRQ, 70, 200), nullptr);
}

// An XRC QP that is opened by two users has one number.
TEST_F(ObjectTable, by_number__the_user_handle_tells_which) {
  insert(OBJECT_QP, 1, 70, 100);
  insert(OBJECT_QP, 2, 70, 200);
  EXPECT_EQ(object_table_by_number(&table_, OBJECT_QP, 70, 100)->id, 1u);
  EXPECT_EQ(object_table_by_number(&table_, OBJECT_QP, 70, 200)->id, 2u);
  object_table_remove(&table_, OBJECT_QP, 1);
  EXPECT_EQ(object_table_by_number(&table_, OBJECT_QP, 70, 200)->id, 2u);
}

TEST_F(ObjectTable, random_life__agrees_with_a_map) {
  std::mt19937 random(20261201);
  std::map<uint32_t, uint64_t> expected;
  for (int step = 0; step < 20000; ++step) {
    const uint32_t handle = random() % 700;
    if (random() % 2 == 0 && expected.count(handle) == 0) {
      insert(OBJECT_QP, handle, handle * 64, handle + 5u);
      expected[handle] = handle + 5u;
    } else {
      object_table_remove(&table_, OBJECT_QP, handle);
      expected.erase(handle);
    }
    const uint32_t other = random() % 700;
    const object* found = object_table_find(&table_, OBJECT_QP, other);
    ASSERT_EQ(found != nullptr, expected.count(other) == 1) << "step " << step;
    const object* by = object_table_by_number(&table_, OBJECT_QP, other * 64, other + 5u);
    ASSERT_EQ(by, found) << "step " << step;
  }
  EXPECT_EQ(table_.used, expected.size() * 2) << "an entry by handle, one by number";
}

}  // namespace
}  // namespace uroce::preload_test
