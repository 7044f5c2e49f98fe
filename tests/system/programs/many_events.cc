// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// More events than any socket buffer holds, before the program reads the first. Usage: many_events
// completions|async
#include <poll.h>

#include <set>
#include <string>
#include <vector>

#include "verbs_pair.h"

namespace {

constexpr int kObjects = 1000;

// A thousand CQs on one channel; each gets one completion before the first event is read.
void completions_case(ibv_context* context) {
  Pair pair(context);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  REQUIRE(channel != nullptr);
  std::vector<ibv_cq*> cqs;
  std::vector<ibv_qp*> qps;
  for (int i = 0; i < kObjects; ++i) {
    ibv_cq* cq = ibv_create_cq(context, 4, nullptr, channel, 0);
    REQUIRE(cq != nullptr && ibv_req_notify_cq(cq, 0) == 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {2, 2, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(pair.pd, &init);
    REQUIRE(qp != nullptr);
    pair.join(qp, qp);  // to itself
    cqs.push_back(cq);
    qps.push_back(qp);
  }
  ibv_qp* const original = pair.a;
  for (ibv_qp* qp : qps) {
    pair.a = qp;
    pair.post(IBV_WR_RDMA_WRITE, pair.buffer, pair.buffer + 4096, 64);
  }
  pair.a = original;
  std::set<ibv_cq*> seen;
  while (seen.size() < kObjects) {
    pollfd ready{channel->fd, POLLIN, 0};
    if (poll(&ready, 1, 20000) != 1) fail("only %zu of %d completion events arrived", seen.size(), kObjects);
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    REQUIRE(ibv_get_cq_event(channel, &cq, &user) == 0);
    if (!seen.insert(cq).second) fail("a CQ had two events for one arming");
    ibv_ack_cq_events(cq, 1);
    ibv_wc wc;
    REQUIRE(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
  }
  for (ibv_qp* qp : qps) REQUIRE(ibv_destroy_qp(qp) == 0);
  for (ibv_cq* cq : cqs) REQUIRE(ibv_destroy_cq(cq) == 0);
  REQUIRE(ibv_destroy_comp_channel(channel) == 0);
}

// A limit armed on an empty SRQ is reached at once.
void async_case(ibv_context* context) {
  ibv_pd* pd = ibv_alloc_pd(context);
  REQUIRE(pd != nullptr);
  std::vector<ibv_srq*> srqs;
  for (int i = 0; i < kObjects; ++i) {
    ibv_srq_init_attr init{};
    init.attr.max_wr = 8;
    init.attr.max_sge = 1;
    ibv_srq* srq = ibv_create_srq(pd, &init);
    REQUIRE(srq != nullptr);
    srqs.push_back(srq);
  }
  for (ibv_srq* srq : srqs) {
    ibv_srq_attr attr{};
    attr.srq_limit = 1;
    REQUIRE(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
  }
  std::set<ibv_srq*> seen;
  while (seen.size() < kObjects) {
    pollfd ready{context->async_fd, POLLIN, 0};
    if (poll(&ready, 1, 20000) != 1)
      fail("only %zu of %d asynchronous events arrived", seen.size(), kObjects);
    ibv_async_event event{};
    REQUIRE(ibv_get_async_event(context, &event) == 0);
    if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && !seen.insert(event.element.srq).second)
      fail("an SRQ had two events");
    ibv_ack_async_event(&event);
  }
  for (ibv_srq* srq : srqs) REQUIRE(ibv_destroy_srq(srq) == 0);
  REQUIRE(ibv_dealloc_pd(pd) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  ibv_context* context = open_device();
  if (which == "completions")
    completions_case(context);
  else if (which == "async")
    async_case(context);
  else
    fail("usage: many_events completions|async");
  REQUIRE(ibv_close_device(context) == 0);
  std::puts("done");
}
