// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ibv_create_cq(3), ibv_create_cq_ex(3), ibv_resize_cq(3).
#include <fcntl.h>
#include <poll.h>
#include <time.h>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class CompletionQueue : public Pair {
 protected:
  ibv_cq_ex* extended(uint64_t wc_flags, uint32_t flags = 0) {
    ibv_cq_init_attr_ex init{};
    init.cqe = 16;
    init.wc_flags = wc_flags;
    init.comp_mask = flags != 0 ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0;
    init.flags = flags;
    return ibv_create_cq_ex(context, &init);
  }
  // Completions that are there when it returns: receives of a queue pair that goes to the error state.
  void flush_receives(ibv_qp* of, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(post_recv(of, sge(0, 8), i), 0);
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(of, &error, IBV_QP_STATE), 0);
  }
  void write_once(ibv_qp* from) {
    ibv_sge list = sge(0, 8);
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &list);
    wr.wr.rdma = {reinterpret_cast<uintptr_t>(&buffer[64]), mr->rkey};
    ASSERT_EQ(post(from, wr), 0);
  }
};

TEST_F(CompletionQueue, size_limits_are_kept) {
  EXPECT_EQ(ibv_create_cq(context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context, limits.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context, 8, nullptr, nullptr, context->num_comp_vectors), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Cq one(ibv_create_cq(context, 1, nullptr, nullptr, 0));
  ASSERT_NE(one, nullptr);
  EXPECT_GE(one->cqe, 1);
}

TEST_F(CompletionQueue, one_that_is_in_use_is_busy) {
  EXPECT_EQ(ibv_destroy_cq(queue.get()), EBUSY);
}

TEST_F(CompletionQueue, resizing_keeps_what_waits) {
  flush_receives(left.get(), 5);
  ibv_cq* const cq = queue.get();
  EXPECT_EQ(ibv_resize_cq(cq, 4), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq, 5), 0);
  EXPECT_EQ(ibv_resize_cq(cq, 300), 0);
  EXPECT_GE(cq->cqe, 300);
  EXPECT_EQ(ibv_resize_cq(cq, 0), EINVAL);
  const std::vector<ibv_wc> all = await(cq, 5);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].wr_id, i) << "in their order";
}

TEST_F(CompletionQueue, extended_polling_reads_what_was_asked_for) {
  ibv_cq_ex* const cq = extended(IBV_WC_STANDARD_FLAGS);
  ASSERT_NE(cq, nullptr);
  {
    Qp a = qp(IBV_QPT_RC, ibv_cq_ex_to_cq(cq)), b = qp(IBV_QPT_RC, queue.get());
    connect(a.get(), b.get());
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
    ASSERT_EQ(post_recv(a.get(), sge(0, 100), 55), 0);
    ibv_sge list = sge(200, 11);
    ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_IMM, &list);
    wr.imm_data = htobe32(77);
    ASSERT_EQ(post(b.get(), wr), 0);
    await(queue.get(), 1);
    while (ibv_start_poll(cq, &attr) == ENOENT) continue;
    EXPECT_EQ(cq->wr_id, 55u);
    EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(cq), 11u);
    EXPECT_EQ(be32toh(ibv_wc_read_imm_data(cq)), 77u);
    EXPECT_EQ(ibv_wc_read_qp_num(cq), a->qp_num);
    EXPECT_EQ(ibv_wc_read_src_qp(cq), b->qp_num);
    EXPECT_NE(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM, 0u);
    EXPECT_EQ(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    attr.comp_mask = 1;
    EXPECT_EQ(ibv_start_poll(cq, &attr), EINVAL);
  }
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(CompletionQueue, timestamps_are_on_the_devices_clock) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.completion_timestamp_mask, ~uint64_t{0});
  ASSERT_EQ(attributes.hca_core_clock, 1000000u) << "kHz";
  const auto raw_clock = [this] {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(context, &values), 0);
    return static_cast<uint64_t>(values.raw_clock.tv_nsec);
  };
  ibv_cq_ex* const cq =
      extended(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
  ASSERT_NE(cq, nullptr);
  {
    Qp a = qp(IBV_QPT_RC, ibv_cq_ex_to_cq(cq)), b = qp(IBV_QPT_RC, queue.get());
    connect(a.get(), b.get());
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    const uint64_t before = raw_clock();
    write_once(a.get());
    ibv_poll_cq_attr attr{};
    while (ibv_start_poll(cq, &attr) == ENOENT) continue;
    const uint64_t stamp = ibv_wc_read_completion_ts(cq);
    const uint64_t wall_stamp = ibv_wc_read_completion_wallclock_ns(cq);
    ibv_end_poll(cq);
    EXPECT_GE(stamp, before);
    EXPECT_LE(stamp, raw_clock());
    const auto wall_before =
        static_cast<uint64_t>(wall.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(wall.tv_nsec);
    EXPECT_GE(wall_stamp + 1'000'000, wall_before);
    EXPECT_LE(wall_stamp, wall_before + 60'000'000'000u);
  }
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// ibv_modify_cq(3): an event after so many completions or so many microseconds, as query_device_ex announces.
TEST_F(CompletionQueue, moderated_events_wait_for_company) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attributes), 0);
  ASSERT_GE(attributes.cq_mod_caps.max_cq_count, 4);
  ASSERT_GE(attributes.cq_mod_caps.max_cq_period, 1000);
  const Channel channel(ibv_create_comp_channel(context));
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  const Cq moderated(ibv_create_cq(context, 16, nullptr, channel.get(), 0));
  const Qp a = qp(IBV_QPT_RC, moderated.get()), b = qp(IBV_QPT_RC, queue.get());
  connect(a.get(), b.get());
  const auto moderate = [&](uint16_t count, uint16_t period) {
    ibv_modify_cq_attr wanted{};
    wanted.attr_mask = IBV_CQ_ATTR_MODERATE;
    wanted.moderate = {count, period};
    return ibv_modify_cq(moderated.get(), &wanted);
  };
  const auto events = [&](int wait_ms) {
    pollfd readable{channel->fd, POLLIN, 0};
    int n = 0;
    for (; poll(&readable, 1, wait_ms) == 1; ++n) {
      ibv_cq* of = nullptr;
      void* user = nullptr;
      if (ibv_get_cq_event(channel.get(), &of, &user) != 0) break;
      ibv_ack_cq_events(of, 1);
      wait_ms = 0;
    }
    return n;
  };
  ASSERT_EQ(moderate(3, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(moderated.get(), 0), 0);
  for (int i = 0; i < 2; ++i) write_once(a.get());
  await(moderated.get(), 2);
  EXPECT_EQ(events(20), 0);
  write_once(a.get());
  EXPECT_EQ(events(20'000), 1);
  await(moderated.get(), 1);
  ASSERT_EQ(moderate(0, 1000), 0);
  ASSERT_EQ(ibv_req_notify_cq(moderated.get(), 0), 0);
  write_once(a.get());
  EXPECT_EQ(events(20'000), 1) << "the period is over";
  await(moderated.get(), 1);
  ibv_modify_cq_attr nothing{};
  EXPECT_EQ(ibv_modify_cq(moderated.get(), &nothing), EINVAL);
  nothing.attr_mask = IBV_CQ_ATTR_RESERVED;
  EXPECT_EQ(ibv_modify_cq(moderated.get(), &nothing), EOPNOTSUPP);
}

TEST_F(CompletionQueue, unknown_wishes_are_refused) {
  for (uint64_t flag : {uint64_t{IBV_WC_EX_WITH_CVLAN}, uint64_t{IBV_WC_EX_WITH_FLOW_TAG},
                        uint64_t{IBV_WC_EX_WITH_TM_INFO}}) {
    errno = 0;
    EXPECT_EQ(extended(flag), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  errno = 0;
  EXPECT_EQ(extended(0, 1u << 8), nullptr);
  EXPECT_NE(errno, 0);
}

TEST_F(CompletionQueue, reset_takes_a_queue_pairs_completions_away) {
  flush_receives(left.get(), 2);
  flush_receives(right.get(), 3);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(left.get(), &reset, IBV_QP_STATE), 0);
  for (const ibv_wc& wc : await(queue.get(), 3)) EXPECT_EQ(wc.qp_num, right->qp_num);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(queue.get(), 1, &wc), 0);
}

}  // namespace
}  // namespace conformance
