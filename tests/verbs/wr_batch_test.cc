// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/verbs/wr_batch.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "provider/engine/engine.h"

namespace uroce::verbs {
namespace {

using engine::WrOpcode;

class NoMemory final : public engine::MemoryAccess {
 public:
  bool write(uint64_t, const std::byte*, size_t) override { return false; }
  bool read(std::byte*, uint64_t, size_t) override { return false; }
  bool compare_swap(uint64_t, uint64_t, uint64_t, uint64_t&) override { return false; }
  bool fetch_add(uint64_t, uint64_t, uint64_t&) override { return false; }
};

// A queue pair that may be posted to and a lane that never looks, so that what is posted stays.
class WrBatchTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 4;
  static constexpr ibv_qp_cap kCap = {kDepth, 1, 2, 1, 32};

  WrBatchTest() : engine_({}, memory_), batch_(kCap) {
    engine::CompletionQueue* cq = nullptr;
    EXPECT_EQ(engine_.create_cq(1, 16, false, 0, cq), 0);
    engine::QpConfig config;
    config.qpn = wire::Qpn(1u << 14 | 5);
    config.send_cq = config.recv_cq = cq;
    config.capabilities = {kCap.max_send_wr, kCap.max_recv_wr, kCap.max_send_sge, kCap.max_recv_sge,
                           kCap.max_inline_data};
    EXPECT_EQ(engine_.create_qp(config, queue_), 0);
    to_rts();
    batch_.start();
  }

  void to_rts() {
    using engine::QpMask;
    engine::QpAttributes a;
    a.state = engine::QpState::init;
    const uint32_t init = QpMask::state | QpMask::pkey_index | QpMask::port | QpMask::access_flags;
    EXPECT_EQ(engine_.modify_qp({}, queue_, a, init), 0);
    a.state = engine::QpState::rtr;
    a.path = engine::PathId{1};
    a.dest_qpn = wire::Qpn(2u << 14 | 1);
    a.max_dest_rd_atomic = 1;
    const uint32_t rtr = QpMask::state | QpMask::av | QpMask::path_mtu | QpMask::dest_qpn | QpMask::rq_psn |
                         QpMask::max_dest_rd_atomic | QpMask::min_rnr_timer;
    EXPECT_EQ(engine_.modify_qp({}, queue_, a, rtr), 0);
    a.state = engine::QpState::rts;
    a.max_rd_atomic = 1;
    const uint32_t rts = QpMask::state | QpMask::timeout | QpMask::retry_cnt | QpMask::rnr_retry |
                         QpMask::sq_psn | QpMask::max_qp_rd_atomic;
    EXPECT_EQ(engine_.modify_qp({}, queue_, a, rts), 0);
  }

  // How many requests the queue would still take.
  uint32_t room() const {
    engine::SendRequest any;
    uint32_t count = 0;
    while (queue_->check_send(any, count) == 0) ++count;
    return count;
  }

  void add_send(uint32_t sges) {
    const ibv_sge list[4] = {};
    batch_.begin(WrOpcode::send, 1, 0);
    batch_.set_list(list, sges);
  }

  NoMemory memory_;
  engine::Engine engine_;
  engine::QueuePair* queue_ = nullptr;
  WrBatch batch_;
};

TEST_F(WrBatchTest, requests_are_posted_together) {
  for (int i = 0; i < 3; ++i) add_send(1);
  EXPECT_EQ(room(), kDepth);
  EXPECT_EQ(batch_.submit(*queue_), 0);
  EXPECT_EQ(room(), kDepth - 3);
}

TEST_F(WrBatchTest, a_full_queue_takes_none_of_them) {
  for (int i = 0; i < 2; ++i) add_send(1);
  EXPECT_EQ(batch_.submit(*queue_), 0);
  batch_.start();
  for (int i = 0; i < 3; ++i) add_send(1);
  EXPECT_EQ(batch_.submit(*queue_), ENOMEM);
  EXPECT_EQ(room(), kDepth - 2);
}

TEST_F(WrBatchTest, more_than_the_queue_ever_holds_is_refused) {
  for (uint32_t i = 0; i <= kDepth; ++i) add_send(1);
  EXPECT_EQ(batch_.submit(*queue_), ENOMEM);
  EXPECT_EQ(room(), kDepth);
}

TEST_F(WrBatchTest, too_long_a_list_refuses_all) {
  add_send(1);
  add_send(3);
  add_send(1);
  EXPECT_EQ(batch_.submit(*queue_), EINVAL);
  EXPECT_EQ(room(), kDepth);
}

TEST_F(WrBatchTest, a_request_of_another_type_refuses_all) {
  add_send(1);
  batch_.begin(WrOpcode::compare_swap, 2, 0);  // no room for its answer
  EXPECT_EQ(batch_.submit(*queue_), EINVAL);
  EXPECT_EQ(room(), kDepth);
}

TEST_F(WrBatchTest, inline_data_is_limited_over_all_its_parts) {
  char bytes[64] = {};
  batch_.begin(WrOpcode::send, 1, 0);
  batch_.begin_inline();
  batch_.add_inline(bytes, 20);
  batch_.add_inline(bytes, 12);
  EXPECT_EQ(batch_.submit(*queue_), 0);
  batch_.start();
  batch_.begin(WrOpcode::send, 1, 0);
  batch_.begin_inline();
  batch_.add_inline(bytes, 20);
  batch_.add_inline(bytes, 13);
  EXPECT_EQ(batch_.submit(*queue_), EINVAL);
}

TEST_F(WrBatchTest, start_forgets_what_was_before) {
  add_send(3);
  batch_.start();
  add_send(2);
  EXPECT_EQ(batch_.submit(*queue_), 0);
  EXPECT_EQ(room(), kDepth - 1);
}

TEST_F(WrBatchTest, a_setter_without_a_request_does_no_harm) {
  const ibv_sge list[1] = {};
  batch_.set_list(list, 1);
  batch_.begin_inline();
  batch_.add_inline(list, sizeof(list));
  batch_.current().rkey = 5;
  EXPECT_TRUE(batch_.empty());
  EXPECT_EQ(batch_.submit(*queue_), 0);
  EXPECT_EQ(room(), kDepth);
}

}  // namespace
}  // namespace uroce::verbs
