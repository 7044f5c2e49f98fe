// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The attribute table of ibv_modify_qp(3), written down a second time: each set that must be accepted, each
// bit that must be missed when it is left out, each bit that may not be there.
#include "provider/engine/qp_transitions.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/engine/world.h"

namespace uroce::test {
namespace {

using M = QpMask;

struct Row {
  QpType type;
  QpState from;
  QpState to;
  uint32_t required;
  uint32_t optional;
};

constexpr uint32_t kRtr = M::av | M::path_mtu | M::dest_qpn | M::rq_psn;
constexpr uint32_t kRts = M::sq_psn | M::timeout | M::retry_cnt | M::rnr_retry | M::max_qp_rd_atomic;

constexpr Row kRows[] = {
    {QpType::rc, QpState::reset, QpState::init, M::pkey_index | M::port | M::access_flags, 0},
    {QpType::uc, QpState::reset, QpState::init, M::pkey_index | M::port | M::access_flags, 0},
    {QpType::ud, QpState::reset, QpState::init, M::pkey_index | M::port | M::qkey, 0},
    {QpType::xrc_initiator, QpState::reset, QpState::init, M::pkey_index | M::port | M::access_flags, 0},
    {QpType::xrc_target, QpState::reset, QpState::init, M::pkey_index | M::port | M::access_flags, 0},
    {QpType::rc, QpState::init, QpState::rtr, kRtr | M::max_dest_rd_atomic | M::min_rnr_timer,
     M::pkey_index | M::access_flags},
    {QpType::uc, QpState::init, QpState::rtr, kRtr, M::pkey_index | M::access_flags},
    {QpType::ud, QpState::init, QpState::rtr, 0, M::pkey_index | M::qkey},
    {QpType::xrc_initiator, QpState::init, QpState::rtr, kRtr,
     M::pkey_index | M::access_flags | M::max_dest_rd_atomic | M::min_rnr_timer},
    {QpType::xrc_target, QpState::init, QpState::rtr, kRtr | M::max_dest_rd_atomic | M::min_rnr_timer,
     M::pkey_index | M::access_flags},
    {QpType::rc, QpState::rtr, QpState::rts, kRts, M::cur_state | M::access_flags | M::min_rnr_timer},
    {QpType::uc, QpState::rtr, QpState::rts, M::sq_psn, M::cur_state | M::access_flags},
    {QpType::ud, QpState::rtr, QpState::rts, M::sq_psn, M::cur_state | M::qkey},
    {QpType::xrc_initiator, QpState::rtr, QpState::rts, kRts, M::cur_state | M::access_flags},
    {QpType::xrc_target, QpState::rtr, QpState::rts, M::sq_psn | M::timeout,
     M::cur_state | M::access_flags | M::min_rnr_timer | M::retry_cnt | M::rnr_retry | M::max_qp_rd_atomic},
    {QpType::rc, QpState::rts, QpState::rts, 0, M::cur_state | M::access_flags | M::min_rnr_timer},
    {QpType::ud, QpState::rts, QpState::rts, 0, M::cur_state | M::qkey},
    {QpType::rc, QpState::rts, QpState::sqd, 0, M::en_sqd_async_notify},
    {QpType::rc, QpState::sqd, QpState::rts, 0, M::cur_state | M::access_flags | M::min_rnr_timer},
    {QpType::ud, QpState::sqe, QpState::rts, 0, M::cur_state | M::qkey},
    {QpType::uc, QpState::sqe, QpState::rts, 0, M::cur_state | M::access_flags},
};

engine::QpAttributes legal_values(const Row& row) {
  engine::QpAttributes a;
  a.state = row.to;
  a.cur_state = row.from;
  a.path = PathId{1};
  return a;
}

std::string name_of(const Row& row) {
  return std::string("type ") + std::to_string(static_cast<int>(row.type)) + " " + to_string(row.from) +
         " -> " + to_string(row.to);
}

constexpr uint32_t kEveryBit[] = {M::cur_state,
                                  M::en_sqd_async_notify,
                                  M::access_flags,
                                  M::pkey_index,
                                  M::port,
                                  M::qkey,
                                  M::av,
                                  M::path_mtu,
                                  M::timeout,
                                  M::retry_cnt,
                                  M::rnr_retry,
                                  M::rq_psn,
                                  M::max_qp_rd_atomic,
                                  M::alt_path,
                                  M::min_rnr_timer,
                                  M::sq_psn,
                                  M::max_dest_rd_atomic,
                                  M::cap,
                                  M::dest_qpn,
                                  M::rate_limit};

int check(const Row& row, uint32_t mask) {
  return engine::check_modify(row.type, row.from, legal_values(row), mask | M::state, engine::EngineConfig{});
}

TEST(QpTransitions, required_and_optional_attributes_are_accepted) {
  for (const Row& row : kRows) {
    EXPECT_EQ(check(row, row.required), 0) << name_of(row);
    EXPECT_EQ(check(row, row.required | row.optional), 0) << name_of(row);
  }
}

TEST(QpTransitions, each_missing_attribute_is_an_error) {
  for (const Row& row : kRows) {
    for (const uint32_t bit : kEveryBit) {
      if ((row.required & bit) == 0) continue;
      EXPECT_EQ(check(row, row.required & ~bit), EINVAL) << name_of(row) << " without " << bit;
    }
  }
}

TEST(QpTransitions, each_forbidden_attribute_is_an_error) {
  for (const Row& row : kRows) {
    for (const uint32_t bit : kEveryBit) {
      if (((row.required | row.optional) & bit) != 0) continue;
      EXPECT_EQ(check(row, row.required | bit), EINVAL) << name_of(row) << " with " << bit;
    }
  }
}

TEST(QpTransitions, states_cannot_be_skipped) {
  const QpState steps[][2] = {{QpState::reset, QpState::rtr},  {QpState::reset, QpState::rts},
                              {QpState::init, QpState::rts},   {QpState::rtr, QpState::sqd},
                              {QpState::error, QpState::init}, {QpState::error, QpState::rts},
                              {QpState::rts, QpState::init},   {QpState::rts, QpState::sqe}};
  for (const auto& step : steps) {
    engine::QpAttributes a;
    a.state = step[1];
    EXPECT_EQ(engine::check_modify(QpType::rc, step[0], a, M::state, engine::EngineConfig{}), EINVAL)
        << to_string(step[0]) << " -> " << to_string(step[1]);
  }
}

TEST(QpTransitions, reset_and_error_are_entered_from_everywhere_with_nothing_else) {
  for (int from = 0; from <= 6; ++from) {
    for (const QpState to : {QpState::reset, QpState::error}) {
      engine::QpAttributes a;
      a.state = to;
      const auto state = static_cast<QpState>(from);
      EXPECT_EQ(engine::check_modify(QpType::rc, state, a, M::state, engine::EngineConfig{}), 0);
      EXPECT_EQ(engine::check_modify(QpType::rc, state, a, M::state | M::timeout, engine::EngineConfig{}),
                EINVAL);
    }
  }
}

TEST(QpTransitions, values_out_of_range_are_errors) {
  World world;
  QpOptions options;
  QueuePair* qp = world.a.new_qp(options);
  world.a.to_init(qp, options);
  world.a.to_rtr(qp, options, PathId{2}, Qpn(5), Psn(0), world.b.gid);
  const uint32_t mask = M::state | kRts;
  engine::QpAttributes good;
  good.state = QpState::rts;
  const auto refused = [&](auto&& spoil) {
    engine::QpAttributes a = good;
    spoil(a);
    const int error = world.a.engine.modify_qp(world.now(), qp, a, mask);
    engine::QpAttributes now;
    bool draining;
    world.a.engine.query_qp(qp, now, draining);
    return error == EINVAL && now.state == QpState::rtr && now.timeout == 0;
  };
  EXPECT_TRUE(refused([](auto& a) { a.timeout = 32; }));
  EXPECT_TRUE(refused([](auto& a) { a.retry_cnt = 8; }));
  EXPECT_TRUE(refused([](auto& a) { a.rnr_retry = 8; }));
  EXPECT_TRUE(refused([](auto& a) { a.max_rd_atomic = 129; }));
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), qp, good, mask), 0);
}

TEST(QpTransitions, timeout_cannot_be_changed_in_rts_and_nothing_else_changes_with_it) {
  World world;
  const Pair pair = world.connect();
  engine::QpAttributes a;
  a.timeout = 9;
  a.min_rnr_timer = 3;
  a.access_flags = 0;
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, M::timeout), EINVAL);
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, M::timeout | M::min_rnr_timer), EINVAL);
  engine::QpAttributes now;
  bool draining;
  world.a.engine.query_qp(pair.a, now, draining);
  EXPECT_EQ(now.timeout, 14);
  EXPECT_EQ(now.min_rnr_timer, 12);
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, M::min_rnr_timer | M::access_flags), 0);
  world.a.engine.query_qp(pair.a, now, draining);
  EXPECT_EQ(now.min_rnr_timer, 3);
  EXPECT_EQ(now.access_flags, 0u);
}

TEST(QpTransitions, cur_state_that_is_not_so_is_an_error) {
  World world;
  const Pair pair = world.connect();
  engine::QpAttributes a;
  a.cur_state = QpState::rtr;
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, M::cur_state), EINVAL);
  a.cur_state = QpState::rts;
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, M::cur_state), 0);
}

TEST(QpTransitions, address_changes_in_sqd_only) {
  World world;
  const Pair pair = world.connect();
  engine::QpAttributes a;
  a.path = world.path_to(world.b);
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, M::av), EINVAL);
  ASSERT_EQ(world.a.modify(pair.a, QpState::sqd), 0);
  EXPECT_EQ(world.a.engine.modify_qp(world.now(), pair.a, a, M::av), 0);
}

}  // namespace
}  // namespace uroce::test
