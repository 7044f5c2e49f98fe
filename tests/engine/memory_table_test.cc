// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Keys, and memory windows of both types with their invalidation.
#include "provider/engine/memory_table.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

using engine::KeyCheck;
using engine::MappedRange;
using engine::MemoryTable;
using engine::MrConfig;

MrConfig region(uint32_t key, uint64_t iova, uint64_t length, uint32_t access = kAllAccess) {
  MrConfig config;
  config.key = key;
  config.pd = kPd;
  config.iova = iova;
  config.length = length;
  config.host_va = iova + 0x10000;
  config.access = access;
  return config;
}

TEST(MemoryTable, checks_key_domain_right_and_bounds_in_this_order) {
  MemoryTable table;
  ASSERT_EQ(table.add_region(region(0x105, 0x1000, 0x100, Access::remote_read)), 0);
  MappedRange range;
  const auto check = [&](uint32_t key, uint32_t pd, uint32_t needed, uint64_t va, uint64_t bytes) {
    return table.check_remote(key, pd, Qpn(1), needed, va, bytes, range);
  };
  EXPECT_EQ(check(0x105, kPd, Access::remote_read, 0x1010, 0xf0), KeyCheck::ok);
  EXPECT_EQ(range.host_va, 0x11010u);
  EXPECT_EQ(check(0x106, kPd + 1, Access::remote_write, 0, 1), KeyCheck::bad_key);  // another variant
  EXPECT_EQ(check(0xffffffff, kPd, Access::remote_read, 0x1000, 1), KeyCheck::bad_key);
  EXPECT_EQ(check(0x105, kPd + 1, Access::remote_write, 0, 1), KeyCheck::wrong_domain);
  EXPECT_EQ(check(0x105, kPd, Access::remote_write, 0, 1), KeyCheck::no_right);
  EXPECT_EQ(check(0x105, kPd, Access::remote_read, 0x1010, 0xf1), KeyCheck::out_of_bounds);
  EXPECT_EQ(check(0x105, kPd, Access::remote_read, 0xfff, 1), KeyCheck::out_of_bounds);
  EXPECT_EQ(check(0x105, kPd, Access::remote_read, ~uint64_t{0}, 2), KeyCheck::out_of_bounds);
  EXPECT_EQ(check(0x105, kPd, Access::remote_read, 0x1000, ~uint64_t{0}), KeyCheck::out_of_bounds);
}

TEST(MemoryTable, a_key_given_out_again_does_not_open_the_new_region_to_the_old_one) {
  MemoryTable table;
  MappedRange range;
  for (uint32_t variant = 0; variant < 256; ++variant) {
    const uint32_t key = 0x700 | variant;
    ASSERT_EQ(table.add_region(region(key, 0x1000, 64)), 0);
    EXPECT_EQ(table.add_region(region(key, 0x1000, 64)), EEXIST);
    for (uint32_t old = 0; old < 256; ++old) {
      EXPECT_EQ(
          table.check_remote(0x700 | old, kPd, Qpn(1), Access::remote_read, 0x1000, 1, range) == KeyCheck::ok,
          old == variant);
    }
    ASSERT_EQ(table.remove_region(key), 0);
    EXPECT_EQ(table.remove_region(key), EINVAL);
  }
}

TEST(MemoryTable, empty_implicit_and_null_regions) {
  MemoryTable table;
  MappedRange range;
  ASSERT_EQ(table.add_region(region(0x100, 0x1000, 0)), 0);
  EXPECT_EQ(table.check_local(0x100, kPd, 0, 0x1000, 0, range), KeyCheck::ok);
  EXPECT_EQ(table.check_local(0x100, kPd, 0, 0x1000, 1, range), KeyCheck::out_of_bounds);
  MrConfig implicit = region(0x200, 0, 0);
  implicit.implicit = true;
  ASSERT_EQ(table.add_region(implicit), 0);
  EXPECT_EQ(table.check_local(0x200, kPd, Access::local_write, 0x7fff12345678, 4096, range), KeyCheck::ok);
  EXPECT_EQ(range.host_va, 0x7fff12345678u);
  MrConfig null = region(0x300, 0, 0);
  null.null = true;
  ASSERT_EQ(table.add_region(null), 0);
  EXPECT_EQ(table.check_local(0x300, kPd, Access::local_write, 0x10, 1 << 20, range), KeyCheck::ok);
  EXPECT_TRUE(range.null);
}

TEST(MemoryTable, overlapping_regions_have_rights_of_their_own) {
  MemoryTable table;
  MappedRange range;
  ASSERT_EQ(table.add_region(region(0x100, 0x1000, 64)), 0);
  ASSERT_EQ(table.add_region(region(0x200, 0x1000, 64, Access::remote_read)), 0);
  EXPECT_EQ(table.check_remote(0x200, kPd, Qpn(1), Access::remote_write, 0x1000, 8, range),
            KeyCheck::no_right);
  EXPECT_EQ(table.check_remote(0x100, kPd, Qpn(1), Access::remote_write, 0x1000, 8, range), KeyCheck::ok);
}

TEST(MemoryTable, a_region_is_changed_in_place_or_moves_to_a_new_key) {
  MemoryTable table;
  MappedRange range;
  ASSERT_EQ(table.add_region(region(0x100, 0x1000, 64)), 0);
  ASSERT_EQ(table.change_region(0x100, region(0x101, 0x5000, 32)), 0);
  EXPECT_EQ(table.check_local(0x100, kPd, 0, 0x1000, 1, range), KeyCheck::bad_key);
  EXPECT_EQ(table.check_local(0x101, kPd, 0, 0x5000, 32, range), KeyCheck::ok);
  EXPECT_EQ(table.check_local(0x101, kPd, 0, 0x5000, 33, range), KeyCheck::out_of_bounds);
  EXPECT_EQ(table.change_region(0x999, region(0x999, 0, 1)), EINVAL);
}

// ---- windows through queue pairs -----------------------------------------------------------------

struct Windows : ::testing::Test {
  Windows() : local(world.a.region(4096)), memory(world.b.region(4096)) {
    pair = world.connect();
    type1 = world.b.new_key();
    type2 = world.b.new_key();
    EXPECT_EQ(world.b.engine.register_window(type1, kPd, false), 0);
    EXPECT_EQ(world.b.engine.register_window(type2, kPd, true), 0);
    world.a.memory.fill(local.va, 4096, 1);
  }
  WcStatus bind(uint32_t window, uint32_t new_rkey, const Region& of, uint64_t offset, uint64_t length,
                uint32_t access = Access::remote_write | Access::remote_read) {
    SendRequest r = request(WrOpcode::bind_window, 50);
    r.bind = {window, new_rkey, of.key, of.va + offset, length, access};
    EXPECT_EQ(world.b.post(pair.b, r), 0);
    const Completion c = world.completions(world.b, 1)[0];
    EXPECT_TRUE(c.status != WcStatus::success || c.opcode == WcOpcode::bind_window);
    return c.status;
  }
  WcStatus write(uint32_t rkey, uint64_t va, uint32_t bytes = 16) {
    const SgEntry sge = local.sge(0, bytes);
    EXPECT_EQ(world.a.post(pair.a, request(WrOpcode::write, 1, {&sge, 1}, va, rkey)), 0);
    return world.completions(world.a, 1)[0].status;
  }
  World world;
  Region local;
  Region memory;
  Pair pair;
  uint32_t type1 = 0;
  uint32_t type2 = 0;
};

TEST_F(Windows, unbound_window_opens_nothing) {
  EXPECT_EQ(write(type2, memory.va), WcStatus::remote_access_error);
}

TEST_F(Windows, type_2_opens_its_range_only) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 64, 128), WcStatus::success);
  EXPECT_EQ(write(type2 + 1, memory.va + 64), WcStatus::success);
  EXPECT_TRUE(world.b.memory.holds(memory.va + 64, 16, 1));
  EXPECT_EQ(write(type2 + 1, memory.va + 64 + 128 - 15), WcStatus::remote_access_error);
}

TEST_F(Windows, type_2_old_key_is_dead_after_binding) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64), WcStatus::success);
  EXPECT_EQ(write(type2, memory.va), WcStatus::remote_access_error);
}

TEST_F(Windows, rights_of_the_window_count) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64, Access::remote_read), WcStatus::success);
  EXPECT_EQ(write(type2 + 1, memory.va), WcStatus::remote_access_error);
}

TEST_F(Windows, type_2_belongs_to_its_queue_pair) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64), WcStatus::success);
  pair = world.connect();
  EXPECT_EQ(write(type2 + 1, memory.va), WcStatus::remote_access_error);
}

TEST_F(Windows, type_1_belongs_to_the_domain_and_may_be_bound_again) {
  ASSERT_EQ(bind(type1, type1 + 1, memory, 0, 64), WcStatus::success);
  ASSERT_EQ(bind(type1 + 1, type1 + 2, memory, 128, 64), WcStatus::success);
  pair = world.connect();
  EXPECT_EQ(write(type1 + 2, memory.va + 128), WcStatus::success);
  EXPECT_EQ(write(type1 + 1, memory.va), WcStatus::remote_access_error);
}

TEST_F(Windows, zero_based_window_counts_from_its_start) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 256, 64, Access::remote_write | Access::zero_based),
            WcStatus::success);
  EXPECT_EQ(write(type2 + 1, 8), WcStatus::success);
  EXPECT_TRUE(world.b.memory.holds(memory.va + 256 + 8, 16, 1));
  EXPECT_EQ(write(type2 + 1, memory.va + 256), WcStatus::remote_access_error);
}

TEST_F(Windows, local_invalidate_closes_it) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64), WcStatus::success);
  SendRequest r = request(WrOpcode::local_invalidate, 60);
  r.invalidate_rkey = type2 + 1;
  ASSERT_EQ(world.b.post(pair.b, r), 0);
  const Completion c = world.completions(world.b, 1)[0];
  EXPECT_EQ(c.status, WcStatus::success);
  EXPECT_EQ(c.opcode, WcOpcode::local_invalidate);
  EXPECT_EQ(write(type2 + 1, memory.va), WcStatus::remote_access_error);
}

TEST_F(Windows, send_with_invalidate_closes_it_and_says_which) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64), WcStatus::success);
  ASSERT_EQ(world.b.receive(pair.b, 70), 0);
  SendRequest r = request(WrOpcode::send_invalidate, 2);
  r.invalidate_rkey = type2 + 1;
  ASSERT_EQ(world.a.post(pair.a, r), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::success);
  const Completion received = world.completions(world.b, 1)[0];
  EXPECT_EQ(received.flags, Completion::kWithInvalidate);
  EXPECT_EQ(received.imm_or_rkey, type2 + 1);
  EXPECT_EQ(write(type2 + 1, memory.va), WcStatus::remote_access_error);
}

TEST_F(Windows, invalidating_what_is_not_bound_fails_both_ends) {
  ASSERT_EQ(world.b.receive(pair.b, 70), 0);
  SendRequest r = request(WrOpcode::send_invalidate, 2);
  r.invalidate_rkey = type2;
  ASSERT_EQ(world.a.post(pair.a, r), 0);
  EXPECT_EQ(world.completions(world.a, 1)[0].status, WcStatus::remote_access_error);
  EXPECT_EQ(world.b.poll().at(0).status, WcStatus::memory_window_bind_error);
}

TEST_F(Windows, bind_without_the_right_of_the_region_is_a_bind_error) {
  const Region closed = world.b.region(64, kAllAccess & ~Access::window_bind);
  EXPECT_EQ(bind(type2, type2 + 1, closed, 0, 64), WcStatus::memory_window_bind_error);
}

TEST_F(Windows, bind_beyond_the_region_is_a_bind_error) {
  EXPECT_EQ(bind(type2, type2 + 1, memory, 4000, 97), WcStatus::memory_window_bind_error);
}

TEST_F(Windows, remote_write_needs_a_region_that_is_writable_here) {
  const Region readable = world.b.region(64, Access::window_bind | Access::remote_read);
  EXPECT_EQ(bind(type2, type2 + 1, readable, 0, 64), WcStatus::memory_window_bind_error);
}

TEST_F(Windows, type_2_that_is_bound_cannot_be_bound_again) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64), WcStatus::success);
  EXPECT_EQ(bind(type2 + 1, type2 + 2, memory, 0, 64), WcStatus::memory_window_bind_error);
}

TEST_F(Windows, a_region_with_a_window_cannot_be_deregistered) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64), WcStatus::success);
  EXPECT_EQ(world.b.engine.deregister_mr(memory.key), EBUSY);
  EXPECT_EQ(world.b.engine.deregister_window(type2 + 1), 0);
  EXPECT_EQ(world.b.engine.deregister_mr(memory.key), 0);
}

TEST_F(Windows, a_queue_pair_that_goes_away_frees_its_windows) {
  ASSERT_EQ(bind(type2, type2 + 1, memory, 0, 64), WcStatus::success);
  ASSERT_EQ(world.b.engine.destroy_qp(world.now(), pair.b), 0);
  EXPECT_EQ(world.b.engine.deregister_mr(memory.key), 0);
}

}  // namespace
}  // namespace uroce::test
