// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <cstring>

#include "tests/uroced/cm/rdma_world.h"

namespace uroce::cm {
namespace {

using test::parameters;
using test::RdmaWorld;
using test::Side;

struct Answer {
  int error = 0;
  ib_uverbs_qp_attr attributes{};
};

Answer ask(const Side& side, uint32_t id, uint32_t qp_state) {
  Answer answer;
  answer.error = side.cm.init_qp_attributes(id, qp_state, answer.attributes);
  return answer;
}

// The states of a QP that an answer is given for, as "INIT RTR RTS".
std::string given(const Side& side, uint32_t id) {
  std::string out;
  for (const auto& [state, name] :
       {std::pair(IBV_QPS_INIT, "INIT"), {IBV_QPS_RTR, "RTR"}, {IBV_QPS_RTS, "RTS"}}) {
    const Answer answer = ask(side, id, state);
    EXPECT_TRUE(answer.error == 0 || answer.error == EINVAL);
    if (answer.error == 0) out += (out.empty() ? "" : " ") + std::string(name);
  }
  return out;
}

constexpr uint32_t kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr uint32_t kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr uint32_t kResponds = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr uint32_t kRts = IBV_QP_STATE | IBV_QP_SQ_PSN;
constexpr uint32_t kInitiates = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

TEST(RdmaQpAttributes, need_a_device_and_a_state_that_is_one) {
  RdmaWorld w;
  const uint32_t id = w.a.create();
  EXPECT_EQ(ask(w.a, id, IBV_QPS_INIT).error, EINVAL);
  ASSERT_EQ(w.a.cm.bind(id, Address::any(AF_INET), false), 0);
  EXPECT_EQ(ask(w.a, id, IBV_QPS_INIT).error, EINVAL);
  const uint32_t bound = w.a.create();
  ASSERT_EQ(w.a.cm.bind(bound, w.a.ip4, false), 0);
  EXPECT_EQ(ask(w.a, bound, IBV_QPS_INIT).error, 0);
  EXPECT_EQ(ask(w.a, bound, IBV_QPS_ERR + 1).error, EINVAL);
}

TEST(RdmaQpAttributes, before_a_connection_are_those_of_init) {
  RdmaWorld w;
  const Answer rc = ask(w.a, w.routed(w.b.ip4), IBV_QPS_INIT);
  EXPECT_EQ(rc.attributes.qp_attr_mask, kInit | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(rc.attributes.qp_access_flags, 0u);
  EXPECT_EQ(rc.attributes.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(rc.attributes.port_num, 1);
  EXPECT_EQ(rc.attributes.pkey_index, 0);
  const Answer ud = ask(w.a, w.routed(w.b.ip4, RDMA_PS_UDP), IBV_QPS_INIT);
  EXPECT_EQ(ud.attributes.qp_attr_mask, kInit | IBV_QP_QKEY);
  EXPECT_EQ(ud.attributes.qkey, 0x01234567u);
}

TEST(RdmaQpAttributes, datagrams_have_them_in_every_state) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested(RDMA_PS_UDP, QpType::ud, QpType::ud);
  EXPECT_EQ(given(w.a, ends.active), "INIT RTR RTS");
  EXPECT_EQ(ask(w.b, ends.passive, IBV_QPS_RTR).attributes.qp_attr_mask, kInit | IBV_QP_QKEY);
}

// A key that the peer has chosen is the one to use.
TEST(RdmaQpAttributes, datagrams_use_the_key_of_the_answer) {
  RdmaWorld w;
  const uint32_t id = w.routed(w.b.ip4, RDMA_PS_UDP, QpType::ud);
  w.lose = test::is<wire::CmSidrReq>;
  ASSERT_EQ(w.a.cm.connect(w.now, id, parameters()), 0);
  w.deliver();
  wire::CmSidrRep reply;
  reply.request_id = w.a.cm.find(id)->endpoint;
  reply.qpn = 5;
  reply.qkey = 0x77;
  w.inject(w.a, w.b, reply);
  w.a.expect(EventKind::established);
  EXPECT_EQ(ask(w.a, id, IBV_QPS_INIT).attributes.qkey, 0x77u);
}

TEST(RdmaQpAttributes, are_given_as_the_connection_comes_to_know_them) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested();
  EXPECT_EQ(given(w.a, ends.active), "INIT");
  EXPECT_EQ(given(w.b, ends.passive), "INIT RTR RTS");
  const rdma_ucm_conn_param p = parameters(0x222);
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, &p), 0);
  EXPECT_EQ(given(w.b, ends.passive), "INIT RTR RTS");
  w.deliver();
  EXPECT_EQ(given(w.a, ends.active), "INIT RTR RTS");
  ASSERT_EQ(w.a.cm.accept(w.now, ends.active, nullptr), 0);
  w.deliver();
  EXPECT_EQ(given(w.a, ends.active), "INIT RTR RTS");
  EXPECT_EQ(given(w.b, ends.passive), "INIT RTR RTS");
  EXPECT_EQ(ask(w.a, ends.active, IBV_QPS_SQD).error, EINVAL);
  ASSERT_EQ(w.a.cm.disconnect(w.now, ends.active), 0);
  EXPECT_EQ(given(w.a, ends.active), "");
  w.deliver();
  EXPECT_EQ(given(w.b, ends.passive), "");
}

TEST(RdmaQpAttributes, of_a_rejected_connection_are_gone) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested();
  ASSERT_EQ(w.b.cm.reject(w.now, ends.passive, 0, {}), 0);
  w.deliver();
  EXPECT_EQ(given(w.a, ends.active), "");
  EXPECT_EQ(given(w.b, ends.passive), "");
}

TEST(RdmaQpAttributes, let_the_peer_read_when_it_may) {
  for (const uint8_t resources : {0, 1}) {
    RdmaWorld w;
    w.b.listener(w.b.ip4);
    const uint32_t active = w.routed(w.b.ip4);
    rdma_ucm_conn_param p = parameters();
    p.initiator_depth = resources;      // what a asks of b
    p.responder_resources = resources;  // what b may ask of a
    ASSERT_EQ(w.a.cm.connect(w.now, active, p), 0);
    w.deliver();
    const uint32_t passive = w.b.expect(EventKind::connect_request).new_id;
    const uint32_t may =
        IBV_ACCESS_REMOTE_WRITE | (resources != 0 ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0);
    for (const Answer& answer : {ask(w.a, active, IBV_QPS_INIT), ask(w.b, passive, IBV_QPS_INIT)}) {
      EXPECT_EQ(answer.attributes.qp_attr_mask, kInit | IBV_QP_ACCESS_FLAGS);
      EXPECT_EQ(answer.attributes.qp_access_flags, may);
    }
  }
}

struct Connection {
  RdmaWorld world;
  RdmaWorld::Ends ends;
};

// a asks for 3 reads at a time and answers 4; b answers 2 and asks for 5. b's device may take 19 to
// acknowledge.
void connect(Connection& c, QpType type, QpType listener) {
  RdmaWorld& w = c.world;
  w.b.host.ca_ack_delay = 19;
  const uint16_t space = type == QpType::rc ? RDMA_PS_TCP : RDMA_PS_IB;
  c.ends.listener = w.b.listener(w.b.ip4, space, listener);
  c.ends.active = w.routed(w.b.ip4, space, type);
  rdma_ucm_conn_param p = parameters(0x111);
  p.initiator_depth = 3;
  p.responder_resources = 4;
  p.retry_count = 6;
  p.rnr_retry_count = 5;
  ASSERT_EQ(w.a.cm.connect(w.now, c.ends.active, p), 0);
  w.deliver();
  c.ends.passive = w.b.expect(EventKind::connect_request).new_id;
  rdma_ucm_conn_param q = parameters(0x222);
  q.initiator_depth = 5;
  q.responder_resources = 2;
  q.rnr_retry_count = 1;
  ASSERT_EQ(w.b.cm.accept(w.now, c.ends.passive, &q), 0);
  w.deliver();
}

TEST(RdmaQpAttributes, of_both_ends_fit_each_other) {
  Connection c;
  connect(c, QpType::rc, QpType::rc);
  const CmId &a = *c.world.a.cm.find(c.ends.active), &b = *c.world.b.cm.find(c.ends.passive);
  const ib_uverbs_qp_attr a_rtr = ask(c.world.a, a.number, IBV_QPS_RTR).attributes;
  const ib_uverbs_qp_attr a_rts = ask(c.world.a, a.number, IBV_QPS_RTS).attributes;
  const ib_uverbs_qp_attr b_rtr = ask(c.world.b, b.number, IBV_QPS_RTR).attributes;
  const ib_uverbs_qp_attr b_rts = ask(c.world.b, b.number, IBV_QPS_RTS).attributes;
  EXPECT_EQ(a_rtr.dest_qp_num, 0x222u);
  EXPECT_EQ(b_rtr.dest_qp_num, 0x111u);
  EXPECT_NE(a.psn, b.psn);
  EXPECT_EQ(a_rtr.rq_psn, a.psn);
  EXPECT_EQ(a_rtr.rq_psn, b_rts.sq_psn);
  EXPECT_EQ(b_rtr.rq_psn, b.psn);
  EXPECT_EQ(b_rtr.rq_psn, a_rts.sq_psn);
  EXPECT_EQ(a_rtr.path_mtu, 4);
  EXPECT_EQ(b_rtr.path_mtu, 4);
  EXPECT_EQ(std::memcmp(a_rtr.ah_attr.grh.dgid, c.world.b.ip4.ip.raw.data(), 16), 0);
  EXPECT_EQ(std::memcmp(b_rtr.ah_attr.grh.dgid, c.world.a.ip4.ip.raw.data(), 16), 0);
  EXPECT_EQ(a_rtr.ah_attr.grh.sgid_index, a.port->gid_index);
  EXPECT_EQ(a_rtr.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ(a_rtr.ah_attr.is_global, 1);
  EXPECT_EQ(a_rtr.ah_attr.port_num, 1);
  // The reply of b has the last word for a, and b's own for b.
  EXPECT_EQ(a_rts.max_rd_atomic, 2);
  EXPECT_EQ(a_rtr.max_dest_rd_atomic, 5);
  EXPECT_EQ(b_rts.max_rd_atomic, 5);
  EXPECT_EQ(b_rtr.max_dest_rd_atomic, 2);
  EXPECT_EQ(a_rtr.min_rnr_timer, 0);
  EXPECT_EQ(a_rts.retry_cnt, 6);
  EXPECT_EQ(b_rts.retry_cnt, 6);
  EXPECT_EQ(a_rts.rnr_retry, 1);
  EXPECT_EQ(b_rts.rnr_retry, 5);
  // Each waits as long as the other's device may need.
  EXPECT_EQ(a_rts.timeout, 19);
  EXPECT_EQ(b_rts.timeout, 17);
}

TEST(RdmaQpAttributes, have_what_the_type_of_queue_pair_needs) {
  struct Case {
    QpType active, passive;
    uint32_t active_rtr, active_rts, passive_rtr, passive_rts;
  };
  for (const Case& each :
       {Case{QpType::rc, QpType::rc, kResponds, kInitiates | IBV_QP_TIMEOUT, kResponds,
             kInitiates | IBV_QP_TIMEOUT},
        Case{QpType::uc, QpType::uc, 0, 0, 0, 0},
        Case{QpType::xrc_ini, QpType::xrc_tgt, 0, kInitiates | IBV_QP_TIMEOUT, kResponds, IBV_QP_TIMEOUT}}) {
    Connection c;
    connect(c, each.active, each.passive);
    const auto mask = [&](const Side& side, uint32_t id, uint32_t state) {
      return ask(side, id, state).attributes.qp_attr_mask;
    };
    EXPECT_EQ(mask(c.world.a, c.ends.active, IBV_QPS_RTR), kRtr | each.active_rtr);
    EXPECT_EQ(mask(c.world.a, c.ends.active, IBV_QPS_RTS), kRts | each.active_rts);
    EXPECT_EQ(mask(c.world.b, c.ends.passive, IBV_QPS_RTR), kRtr | each.passive_rtr);
    EXPECT_EQ(mask(c.world.b, c.ends.passive, IBV_QPS_RTS), kRts | each.passive_rts);
    EXPECT_EQ(ask(c.world.a, c.ends.active, IBV_QPS_RTR).attributes.dest_qp_num, 0x222u);
  }
}

TEST(RdmaQpAttributes, the_option_has_the_last_word_on_the_timeout) {
  Connection c;
  connect(c, QpType::rc, QpType::rc);
  const std::byte value[] = {std::byte{9}};
  ASSERT_EQ(c.world.b.cm.set_option(c.ends.passive, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, value), 0);
  EXPECT_EQ(ask(c.world.b, c.ends.passive, IBV_QPS_RTS).attributes.timeout, 9);
}

TEST(RdmaQpAttributes, packets_are_marked_as_the_identifier_is) {
  RdmaWorld w;
  w.b.listener(w.b.ip4);
  const uint32_t active = w.a.create();
  const std::byte tos[] = {std::byte{0x68}};
  ASSERT_EQ(w.a.cm.set_option(active, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, tos), 0);
  ASSERT_EQ(w.a.cm.resolve_address(w.now, active, {}, w.b.ip4, 2000, false), 0);
  ASSERT_EQ(w.a.cm.resolve_route(active), 0);
  ASSERT_EQ(w.a.cm.connect(w.now, active, parameters()), 0);
  w.deliver();
  w.a.events.clear();
  const uint32_t passive = w.b.expect(EventKind::connect_request).new_id;
  const rdma_ucm_conn_param p = parameters(0x222);
  ASSERT_EQ(w.b.cm.accept(w.now, passive, &p), 0);
  w.deliver();
  EXPECT_EQ(ask(w.a, active, IBV_QPS_RTR).attributes.ah_attr.grh.traffic_class, 0x68);
  EXPECT_EQ(ask(w.b, passive, IBV_QPS_RTR).attributes.ah_attr.grh.traffic_class, 0x68);
}

}  // namespace
}  // namespace uroce::cm
