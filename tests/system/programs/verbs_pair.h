// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the odd programs share: an opened device and two RC queue pairs joined to each other. Any failure ends
// the program with a sentence and exit code 1. Plain libibverbs, nothing of uroce.
#pragma once

#include <infiniband/verbs.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

[[noreturn, gnu::format(printf, 1, 2)]] inline void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::exit(1);
}

#define REQUIRE(condition)                                                                           \
  do {                                                                                               \
    if (!(condition)) fail("%s:%d: not true: %s (errno %d)", __FILE__, __LINE__, #condition, errno); \
  } while (0)

inline ibv_context* open_device() {
  int n = 0;
  ibv_device** list = ibv_get_device_list(&n);
  REQUIRE(list != nullptr && n > 0);
  ibv_context* context = ibv_open_device(list[0]);
  REQUIRE(context != nullptr);
  ibv_free_device_list(list);
  return context;
}

class Pair {
 public:
  static constexpr size_t kBytes = 1 << 20;

  explicit Pair(ibv_context* c, ibv_comp_channel* channel = nullptr) : context(c) {
    pd = ibv_alloc_pd(context);
    REQUIRE(pd != nullptr);
    cq = ibv_create_cq(context, 1024, nullptr, channel, 0);
    REQUIRE(cq != nullptr);
    buffer = static_cast<char*>(std::aligned_alloc(4096, kBytes));
    std::memset(buffer, 0, kBytes);
    mr = ibv_reg_mr(
        pd, buffer, kBytes,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    REQUIRE(mr != nullptr);
    REQUIRE(ibv_query_gid(context, 1, 0, &gid) == 0);
    a = make_qp();
    b = make_qp();
    join(a, b);
    join(b, a);
  }
  ~Pair() {
    REQUIRE(ibv_destroy_qp(a) == 0);
    REQUIRE(ibv_destroy_qp(b) == 0);
    REQUIRE(ibv_dereg_mr(mr) == 0);
    REQUIRE(ibv_destroy_cq(cq) == 0);
    REQUIRE(ibv_dealloc_pd(pd) == 0);
    std::free(buffer);
  }

  ibv_qp* make_qp() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {256, 256, 4, 4, 64};
    ibv_qp* qp = ibv_create_qp(pd, &init);
    REQUIRE(qp != nullptr);
    return qp;
  }

  void join(ibv_qp* qp, const ibv_qp* peer) const { join(qp, peer->qp_num, gid, 0); }

  void join(ibv_qp* qp, uint32_t peer_qpn, const ibv_gid& peer_gid, int gid_index) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
            0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer_qpn;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer_gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    REQUIRE(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 16;
    REQUIRE(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  }

  // Posts a one-sided operation on `a`.
  void post(ibv_wr_opcode opcode, void* local, void* remote, uint32_t bytes, uint64_t wr_id = 1,
            uint32_t rkey = 0) {
    ibv_sge sge{reinterpret_cast<uint64_t>(local), bytes, mr->lkey};
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(remote);
    wr.wr.rdma.rkey = rkey == 0 ? mr->rkey : rkey;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(a, &wr, &bad) == 0);
  }

  ibv_wc wait() const {
    ibv_wc wc{};
    int n;
    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    REQUIRE(n == 1);
    return wc;
  }

  // A WRITE of a pattern, waited for and looked at.
  void write_and_check(unsigned char mark) {
    char* from = buffer;
    char* to = buffer + kBytes / 2;
    std::memset(from, mark, 5000);
    post(IBV_WR_RDMA_WRITE, from, to, 5000);
    const ibv_wc wc = wait();
    if (wc.status != IBV_WC_SUCCESS) fail("WRITE: %s", ibv_wc_status_str(wc.status));
    REQUIRE(std::memcmp(from, to, 5000) == 0);
  }

  ibv_context* context;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp *a = nullptr, *b = nullptr;
  ibv_gid gid{};
  char* buffer = nullptr;
};
