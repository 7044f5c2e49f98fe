// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/registry.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <set>

namespace uroce::daemon {
namespace {

class RegistryTest : public ::testing::Test {
 protected:
  ~RegistryTest() override { munmap(state, sizeof *state); }

  Fd memory;
  State* state = made();
  Registry registry{*state};

 private:
  State* made() {
    std::string why;
    State* fresh = create_state(memory, why);
    if (fresh == nullptr) throw std::runtime_error(why);
    return fresh;
  }
};

TEST_F(RegistryTest, an_object_belongs_to_one_slot_and_kind) {
  const uint32_t pd = registry.create_object(3, ObjectKind::pd, 77);
  ASSERT_NE(pd, 0u);
  EXPECT_NE(registry.find(3, ObjectKind::pd, pd), nullptr);
  EXPECT_EQ(registry.find(4, ObjectKind::pd, pd), nullptr);
  EXPECT_EQ(registry.find(3, ObjectKind::cq, pd), nullptr);
  EXPECT_EQ(registry.find(3, ObjectKind::pd, 0), nullptr);
  EXPECT_EQ(registry.find(3, ObjectKind::pd, ~0u), nullptr);
  EXPECT_EQ(registry.find(3, ObjectKind::pd, pd + 1), nullptr);
  EXPECT_EQ(registry.object(pd).user_handle, 77u);
}

TEST_F(RegistryTest, lists_hold_what_was_created_and_not_destroyed) {
  std::vector<uint32_t> made;
  for (int i = 0; i < 5; ++i) made.push_back(registry.create_object(1, ObjectKind::pd, 0));
  registry.destroy_object(made[0]);
  registry.destroy_object(made[2]);
  registry.destroy_object(made[4]);
  std::set<uint32_t> seen;
  registry.for_each_object(1, [&](uint32_t index, const ObjectRecord&) { seen.insert(index); });
  EXPECT_EQ(seen, (std::set<uint32_t>{made[1], made[3]}));
  EXPECT_EQ(registry.context(1).object_count, 2u);
}

TEST_F(RegistryTest, roll_back_restores_every_byte) {
  const uint32_t kept = registry.create_object(1, ObjectKind::pd, 0);
  const std::vector<uint8_t> before(reinterpret_cast<uint8_t*>(state->contexts),
                                    reinterpret_cast<uint8_t*>(state->connections));
  const uint32_t used = state->objects_used;
  registry.begin();
  const uint32_t made = registry.create_object(1, ObjectKind::qp, 5);
  registry.fresh_key(made);
  registry.take_qpn(1);
  registry.add_user(kept, 1);
  registry.destroy_object(kept);
  registry.roll_back();
  const std::vector<uint8_t> after(reinterpret_cast<uint8_t*>(state->contexts),
                                   reinterpret_cast<uint8_t*>(state->connections));
  EXPECT_EQ(before, after);
  EXPECT_EQ(state->objects_used, used);
  EXPECT_NE(registry.find(1, ObjectKind::pd, kept), nullptr);
  EXPECT_EQ(registry.object(kept).users, 0u);
  EXPECT_EQ(registry.object(made).kind, ObjectKind::free);
}

TEST_F(RegistryTest, a_transaction_cut_off_by_death_is_undone_by_the_next_worker) {
  registry.begin();
  const uint32_t made = registry.create_object(1, ObjectKind::pd, 0);
  // No commit: the worker is gone here. Another one looks at the same memory.
  Registry next(*state);
  next.recover();
  EXPECT_EQ(next.find(1, ObjectKind::pd, made), nullptr);
  EXPECT_EQ(next.context(1).object_count, 0u);
  EXPECT_EQ(state->generation, 1u);
}

TEST_F(RegistryTest, a_commit_stays) {
  registry.begin();
  const uint32_t made = registry.create_object(1, ObjectKind::pd, 0);
  registry.commit();
  Registry next(*state);
  next.recover();
  EXPECT_NE(next.find(1, ObjectKind::pd, made), nullptr);
}

TEST_F(RegistryTest, a_request_that_crashes_workers_is_counted_against_its_connection) {
  registry.edit(state->in_flight_connection) = 7;
  Registry(*state).recover();
  EXPECT_EQ(state->connections[7].crashes, 0u) << "the worker was killed from outside";
  registry.edit(state->in_flight_connection) = 7;
  registry.edit(state->crashed) = 1;
  Registry(*state).recover();
  EXPECT_EQ(state->connections[7].crashes, 1u);
  EXPECT_EQ(state->in_flight_connection, 0u);
}

TEST_F(RegistryTest, keys_differ_after_reuse_of_the_position) {
  const uint32_t first = registry.create_object(1, ObjectKind::mr, 0);
  const uint32_t key = registry.fresh_key(first);
  registry.destroy_object(first);
  // Freed positions wait: they come back only behind many others.
  uint32_t again = 0;
  for (int i = 0; i < 5000 && again != first; ++i) {
    again = registry.create_object(1, ObjectKind::mr, 0);
    const uint32_t fresh = registry.fresh_key(again);
    EXPECT_NE(fresh, key);
    registry.destroy_object(again);
  }
  EXPECT_EQ(again, first);
  EXPECT_EQ(key >> 8, first);
}

TEST_F(RegistryTest, qpns_roll_and_end) {
  const uint32_t first = registry.take_qpn(5);
  EXPECT_EQ(first >> 14, 5u);
  registry.give_qpn(5, first);
  EXPECT_NE(registry.take_qpn(5), first) << "not used again at once";
  std::set<uint32_t> all;
  while (const uint32_t qpn = registry.take_qpn(5)) {
    EXPECT_EQ(qpn >> 14, 5u);
    EXPECT_TRUE(all.insert(qpn).second);
  }
  EXPECT_EQ(all.size(), UROCE_MAX_QP_PER_CONTEXT - 1u);
  registry.give_qpn(5, first);
  EXPECT_EQ(registry.take_qpn(5), first);
}

TEST_F(RegistryTest, runs_out_of_objects_with_zero) {
  registry.edit(state->objects_used) = kMaxObjects - 2;
  EXPECT_EQ(registry.create_object(1, ObjectKind::pd, 0), kMaxObjects - 1);
  EXPECT_EQ(registry.create_object(1, ObjectKind::pd, 0), 0u);
  registry.destroy_object(kMaxObjects - 1);
  EXPECT_EQ(registry.create_object(1, ObjectKind::pd, 0), kMaxObjects - 1);
}

}  // namespace
}  // namespace uroce::daemon
