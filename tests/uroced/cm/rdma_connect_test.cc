// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/uroced/cm/rdma_world.h"

namespace uroce::cm {
namespace {

using test::is;
using test::parameters;
using test::RdmaWorld;

// What is left for users behind the IP header, or of the message.
constexpr size_t kRequestRoom = 56, kReplyRoom = 196, kSidrRequestRoom = 180, kSidrReplyRoom = 136,
                 kRejectRoom = 148;

// The last message of this kind that `w` has carried; it arrives.
template <typename Message>
void watch(RdmaWorld& w, std::optional<Message>& seen) {
  w.lose = [&seen](const wire::CmMessage& message) {
    if (is<Message>(message)) seen = std::get<Message>(message);
    return false;
  };
}

template <typename Told>
bool carries(const Told& told, size_t user_bytes, size_t room) {
  if (told.private_data_len != room) return false;
  const rdma_ucm_conn_param sent = parameters(0, user_bytes);
  const auto* given = told.private_data;
  return std::equal(given, given + user_bytes, sent.private_data) &&
         std::all_of(given + user_bytes, given + room, [](uint8_t byte) { return byte == 0; });
}

std::vector<uint8_t> bytes(size_t count) {
  const rdma_ucm_conn_param p = parameters(0, count);
  return {p.private_data, p.private_data + count};
}

// ---- connect

TEST(RdmaConnect, the_request_says_what_the_kernels_would) {
  RdmaWorld w;
  std::optional<wire::CmReq> req;
  watch(w, req);
  w.b.listener(w.b.ip4);
  const uint32_t id = w.routed(w.b.ip4);
  rdma_ucm_conn_param p = parameters(0x12345678);
  p.responder_resources = 3;
  p.initiator_depth = 5;
  p.flow_control = p.srq = 1;
  p.retry_count = 9;
  p.rnr_retry_count = 8;
  ASSERT_EQ(w.a.cm.connect(w.now, id, p), 0);
  w.deliver();
  ASSERT_TRUE(req.has_value());
  EXPECT_EQ(req->service_id, 0x01060000u + w.b.ip4.port);
  EXPECT_EQ(req->local_ca_guid, 0x0107u);
  EXPECT_EQ(req->local_qpn, 0x345678u);
  EXPECT_EQ(w.a.cm.find(id)->qpn, 0x345678u);
  EXPECT_EQ(req->responder_resources, 3);
  EXPECT_EQ(req->initiator_depth, 5);
  EXPECT_TRUE(req->end_to_end_flow_control && req->srq);
  EXPECT_EQ(req->retry_count, 7);  // 3 bits each
  EXPECT_EQ(req->rnr_retry_count, 7);
  EXPECT_EQ(req->remote_response_timeout, 20);
  EXPECT_EQ(req->local_response_timeout, 20);
  EXPECT_EQ(req->max_cm_retries, 15);
  EXPECT_EQ(req->path_mtu, 4);
  EXPECT_EQ(req->pkey, 0xffff);
  EXPECT_EQ(req->starting_psn, w.a.cm.find(id)->psn);
  EXPECT_EQ(req->primary.local_gid, w.a.ip4.ip);
  EXPECT_EQ(req->primary.remote_gid, w.b.ip4.ip);
  EXPECT_EQ(req->primary.hop_limit, 64);
  EXPECT_TRUE(req->primary.subnet_local);
  EXPECT_EQ(req->primary.local_lid, 0xffff);
  EXPECT_EQ(req->alternate, wire::CmPath{});
  wire::CmIpHeader header;
  ASSERT_TRUE(wire::parse_ip_header(req->private_data.bytes, header));
  EXPECT_TRUE(header.ipv4);
  EXPECT_EQ(header.source, w.a.ip4.ip);
  EXPECT_EQ(header.destination, w.b.ip4.ip);
  EXPECT_EQ(header.source_port, w.a.cm.find(id)->source.port);
}

TEST(RdmaConnect, ipv6_is_said_in_the_header) {
  RdmaWorld w;
  w.b.listener(w.b.ip6);
  ASSERT_EQ(w.a.cm.connect(w.now, w.routed(w.b.ip6), parameters()), 0);
  w.deliver();
  const uint32_t passive = w.b.expect(EventKind::connect_request).new_id;
  EXPECT_EQ(w.b.cm.find(passive)->source, w.b.ip6);
  EXPECT_EQ(w.b.cm.find(passive)->destination.family, AF_INET6);
  EXPECT_EQ(w.b.cm.find(passive)->destination.ip, w.a.ip6.ip);
}

// The peer waits for us as long as our device may need for an acknowledgement.
TEST(RdmaConnect, the_ack_timeout_follows_from_the_delay_unless_it_was_set) {
  const auto said = [](uint8_t delay, std::optional<uint8_t> option) {
    RdmaWorld w;
    std::optional<wire::CmReq> req;
    watch(w, req);
    w.a.host.ca_ack_delay = delay;
    const uint32_t id = w.routed(w.b.ip4);
    if (option) {
      const std::byte value[] = {std::byte{*option}};
      EXPECT_EQ(w.a.cm.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, value), 0);
    }
    EXPECT_EQ(w.a.cm.connect(w.now, id, parameters()), 0);
    w.deliver();
    return req ? req->primary.local_ack_timeout : 0;
  };
  EXPECT_EQ(said(0, {}), 17);
  EXPECT_EQ(said(15, {}), 17);
  EXPECT_EQ(said(16, {}), 18);
  EXPECT_EQ(said(17, {}), 18);
  EXPECT_EQ(said(18, {}), 19);
  EXPECT_EQ(said(19, {}), 19);
  EXPECT_EQ(said(15, 9), 9);
}

TEST(RdmaConnect, the_type_of_the_queue_pair_is_the_transport) {
  const auto said = [](QpType type) {
    RdmaWorld w;
    std::optional<wire::CmReq> req;
    watch(w, req);
    EXPECT_EQ(w.a.cm.connect(w.now, w.routed(w.b.ip4, RDMA_PS_IB, type), parameters()), 0);
    w.deliver();
    return req.value_or(wire::CmReq{});
  };
  EXPECT_EQ(said(QpType::rc).transport, wire::CmTransport::rc);
  EXPECT_EQ(said(QpType::uc).transport, wire::CmTransport::uc);
  const wire::CmReq xrc = said(QpType::xrc_ini);
  EXPECT_EQ(xrc.transport, wire::CmTransport::extended);
  EXPECT_EQ(xrc.extended_transport, 1);
  EXPECT_EQ(said(QpType::rc).extended_transport, 0);
}

TEST(RdmaConnect, private_data_has_the_room_behind_the_header) {
  const auto attempt = [](uint16_t space, QpType type, size_t room) {
    RdmaWorld w;
    w.b.listener(w.b.ip4, space, type);
    const uint32_t id = w.routed(w.b.ip4, space, type);
    EXPECT_EQ(w.a.cm.connect(w.now, id, parameters(1, room + 1)), EINVAL);
    EXPECT_EQ(w.a.state(id), IdState::route_resolved);
    EXPECT_EQ(w.a.cm.connect(w.now, id, parameters(1, room)), 0);  // it may try again
    w.deliver();
    const IdEvent told = w.b.expect(EventKind::connect_request);
    EXPECT_EQ(told.datagram, type == QpType::ud);
    EXPECT_TRUE(told.datagram ? carries(told.ud, room, room) : carries(told.connection, room, room));
  };
  attempt(RDMA_PS_TCP, QpType::rc, kRequestRoom);
  attempt(RDMA_PS_IB, QpType::uc, kRequestRoom);
  attempt(RDMA_PS_UDP, QpType::ud, kSidrRequestRoom);
}

TEST(RdmaConnect, needs_a_route_and_happens_once) {
  RdmaWorld w;
  const uint32_t id = w.a.create();
  EXPECT_EQ(w.a.cm.connect(w.now, id, parameters()), EINVAL);
  ASSERT_EQ(w.a.cm.resolve_address(w.now, id, {}, w.b.ip4, 2000, false), 0);
  EXPECT_EQ(w.a.cm.connect(w.now, id, parameters()), EINVAL);
  ASSERT_EQ(w.a.cm.resolve_route(id), 0);
  EXPECT_EQ(w.a.cm.connect(w.now, id, parameters()), 0);
  EXPECT_EQ(w.a.cm.connect(w.now, id, parameters()), EINVAL);
}

TEST(RdmaConnect, nobody_there_is_unreachable) {
  for (const bool datagram : {false, true}) {
    RdmaWorld w;
    w.lose = [](const wire::CmMessage&) { return true; };
    const uint32_t id = datagram ? w.routed(w.b.ip4, RDMA_PS_UDP, QpType::ud) : w.routed(w.b.ip4);
    ASSERT_EQ(w.a.cm.connect(w.now, id, parameters()), 0);
    w.advance_ms(600'000);
    const IdEvent told = w.a.expect(EventKind::unreachable);
    EXPECT_EQ(told.status, -ETIMEDOUT);
    EXPECT_EQ(told.datagram, datagram);
    EXPECT_TRUE(w.a.quiet());
  }
}

// ---- accept

TEST(RdmaAccept, the_reply_says_what_the_acceptor_gave) {
  RdmaWorld w;
  std::optional<wire::CmRep> rep;
  watch(w, rep);
  const RdmaWorld::Ends ends = w.requested();
  w.b.host.ca_ack_delay = 11;
  rdma_ucm_conn_param p = parameters(0x89abcdef);
  p.responder_resources = 4;
  p.initiator_depth = 6;
  p.flow_control = p.srq = 1;
  p.rnr_retry_count = 8;
  ASSERT_EQ(w.b.cm.accept(w.now, ends.passive, &p), 0);
  w.deliver();
  ASSERT_TRUE(rep.has_value());
  EXPECT_EQ(rep->local_qpn, 0xabcdefu);
  EXPECT_EQ(w.b.cm.find(ends.passive)->qpn, 0xabcdefu);
  EXPECT_EQ(rep->starting_psn, w.b.cm.find(ends.passive)->psn);
  EXPECT_EQ(rep->responder_resources, 4);
  EXPECT_EQ(rep->initiator_depth, 6);
  EXPECT_EQ(rep->target_ack_delay, 11);
  EXPECT_EQ(rep->rnr_retry_count, 7);
  EXPECT_EQ(rep->local_ca_guid, 0x0207u);
  EXPECT_TRUE(rep->end_to_end_flow_control && rep->srq);
}

TEST(RdmaAccept, both_ends_are_established_when_the_active_one_confirms) {
  for (const auto& [type, listener] :
       {std::pair(QpType::rc, QpType::rc), {QpType::uc, QpType::uc}, {QpType::xrc_ini, QpType::xrc_tgt}}) {
    RdmaWorld w;
    const RdmaWorld::Ends ends = w.replied(type, listener);
    EXPECT_EQ(w.b.cm.find(ends.passive)->qp_type, listener);
    EXPECT_EQ(w.request.connection.qp_num, 0x111u);
    EXPECT_EQ(w.a.expect(EventKind::connect_response).connection.qp_num, 0x222u);
    EXPECT_TRUE(w.b.quiet());
    EXPECT_EQ(w.a.cm.accept(w.now, ends.active, nullptr), 0);
    w.deliver();
    EXPECT_EQ(w.b.expect(EventKind::established).id, ends.passive);
    EXPECT_EQ(w.take_log(), "REP RTU");
  }
}

TEST(RdmaAccept, a_datagram_service_is_established_by_the_answer) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested(RDMA_PS_UDP, QpType::ud, QpType::ud);
  const rdma_ucm_conn_param p = parameters(0x222, kSidrReplyRoom);
  EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), 0);
  w.deliver();
  const IdEvent told = w.a.expect(EventKind::established);
  EXPECT_TRUE(told.datagram);
  EXPECT_EQ(told.status, 0);
  EXPECT_EQ(told.ud.qp_num, 0x222u);
  EXPECT_EQ(w.a.cm.find(ends.active)->qpn, 0x111u);
  EXPECT_EQ(told.ud.qkey, kUdpQkey);
  EXPECT_EQ(std::memcmp(told.ud.ah_attr.grh.dgid, w.b.ip4.ip.raw.data(), sizeof w.b.ip4.ip.raw), 0);
  EXPECT_EQ(told.ud.ah_attr.grh.sgid_index, w.a.cm.find(ends.active)->port->gid_index);
  EXPECT_EQ(told.ud.ah_attr.is_global, 1);
  EXPECT_EQ(told.ud.ah_attr.port_num, 1);
  EXPECT_TRUE(carries(told.ud, kSidrReplyRoom, kSidrReplyRoom));
  EXPECT_EQ(w.take_log(), "SIDR_REP");
}

TEST(RdmaAccept, private_data_fills_the_reply) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested();
  const rdma_ucm_conn_param p = parameters(0x222, kReplyRoom);
  EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), 0);
  w.deliver();
  EXPECT_TRUE(carries(w.a.expect(EventKind::connect_response).connection, kReplyRoom, kReplyRoom));
}

// As in the kernel: the peer is not left to wait for an answer that never comes.
TEST(RdmaAccept, who_fails_to_accept_has_refused) {
  {
    RdmaWorld w;
    const RdmaWorld::Ends ends = w.requested();
    const rdma_ucm_conn_param p = parameters(0x222, kReplyRoom + 1);
    EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), EINVAL);
    w.deliver();
    EXPECT_EQ(w.a.expect(EventKind::rejected).status, 28);
  }
  {
    RdmaWorld w;
    const RdmaWorld::Ends ends = w.requested(RDMA_PS_UDP, QpType::ud, QpType::ud);
    const rdma_ucm_conn_param p = parameters(0x222, kSidrReplyRoom + 1);
    EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), EINVAL);
    w.deliver();
    EXPECT_EQ(w.a.expect(EventKind::unreachable).status, 2);
  }
  {
    RdmaWorld w;  // without a QP to name
    const RdmaWorld::Ends ends = w.requested(RDMA_PS_UDP, QpType::ud, QpType::ud);
    EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, nullptr), EINVAL);
    w.deliver();
    EXPECT_EQ(w.a.expect(EventKind::unreachable).status, 2);
  }
  {
    RdmaWorld w;  // twice
    const RdmaWorld::Ends ends = w.replied();
    w.a.expect(EventKind::connect_response);
    const rdma_ucm_conn_param p = parameters(0x222);
    EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), EINVAL);
    w.deliver();
    EXPECT_EQ(w.a.expect(EventKind::rejected).status, 28);
  }
}

TEST(RdmaAccept, of_an_established_connection_changes_nothing) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.established();
  const rdma_ucm_conn_param p = parameters(0x222);
  EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), EINVAL);
  EXPECT_EQ(w.a.cm.accept(w.now, ends.active, nullptr), EINVAL);
  w.deliver();
  EXPECT_TRUE(w.a.quiet() && w.b.quiet());
  EXPECT_EQ(w.take_log(), "");
}

TEST(RdmaAccept, is_for_connections) {
  RdmaWorld w;
  const rdma_ucm_conn_param p = parameters();
  EXPECT_EQ(w.b.cm.accept(w.now, w.b.create(), &p), EINVAL);
  EXPECT_EQ(w.b.cm.accept(w.now, w.b.listener(w.b.ip4), &p), EINVAL);
  EXPECT_EQ(w.a.cm.accept(w.now, w.routed(w.b.ip4), &p), EINVAL);
}

// ---- reject

TEST(RdmaReject, carries_reason_and_private_data) {
  for (const uint8_t reason : {0, 28, 35}) {
    RdmaWorld w;
    const RdmaWorld::Ends ends = w.requested();
    EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, reason, bytes(kRejectRoom)), 0);
    w.deliver();
    const IdEvent told = w.a.expect(EventKind::rejected);
    EXPECT_EQ(told.id, ends.active);
    EXPECT_EQ(told.status, reason == 0 ? 28 : reason);
    EXPECT_FALSE(told.datagram);
    EXPECT_TRUE(carries(told.connection, kRejectRoom, kRejectRoom));
    EXPECT_TRUE(w.b.quiet());
    EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, reason, {}), EINVAL);  // again
  }
}

TEST(RdmaReject, takes_no_other_reason_and_no_more_data) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested();
  for (const uint8_t reason : {1, 8, 27, 29, 36, 255})
    EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, reason, {}), EINVAL);
  EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, 0, bytes(kRejectRoom + 1)), EINVAL);
  w.deliver();
  EXPECT_TRUE(w.a.quiet());  // it may still be accepted
  const rdma_ucm_conn_param p = parameters(0x222);
  EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), 0);
}

TEST(RdmaReject, a_reply_can_be_rejected_too) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.replied();
  w.a.expect(EventKind::connect_response);
  EXPECT_EQ(w.a.cm.reject(w.now, ends.active, 0, bytes(3)), 0);
  w.deliver();
  const IdEvent told = w.b.expect(EventKind::rejected);
  EXPECT_EQ(told.id, ends.passive);
  EXPECT_TRUE(carries(told.connection, 3, kRejectRoom));
}

TEST(RdmaReject, of_a_question_for_a_service) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested(RDMA_PS_UDP, QpType::ud, QpType::ud);
  EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, 0, bytes(kSidrReplyRoom + 1)), EINVAL);
  EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, 0, bytes(kSidrReplyRoom)), 0);
  w.deliver();
  const IdEvent told = w.a.expect(EventKind::unreachable);
  EXPECT_EQ(told.status, 2);
  EXPECT_TRUE(carries(told.ud, kSidrReplyRoom, kSidrReplyRoom));
}

TEST(RdmaReject, needs_somebody_to_tell) {
  RdmaWorld w;
  EXPECT_EQ(w.a.cm.reject(w.now, w.a.create(), 0, {}), EINVAL);
  EXPECT_EQ(w.a.cm.reject(w.now, w.routed(w.b.ip4), 0, {}), EINVAL);
  const RdmaWorld::Ends ends = w.established();
  EXPECT_EQ(w.a.cm.reject(w.now, ends.active, 0, {}), EINVAL);
  w.deliver();
  EXPECT_TRUE(w.b.quiet());
}

// ---- disconnect

TEST(RdmaDisconnect, of_either_end_is_told_to_both_and_over_later) {
  for (const bool passive : {false, true}) {
    RdmaWorld w;
    const RdmaWorld::Ends ends = w.established();
    EXPECT_EQ(passive ? w.b.cm.disconnect(w.now, ends.passive) : w.a.cm.disconnect(w.now, ends.active), 0);
    w.deliver();
    EXPECT_EQ(w.take_log(), "DREQ DREP");
    EXPECT_EQ(w.a.expect(EventKind::disconnected).status, 0);
    EXPECT_EQ(w.b.expect(EventKind::disconnected).status, 0);
    EXPECT_EQ(w.a.state(ends.active), IdState::disconnect);
    EXPECT_EQ(w.b.state(ends.passive), IdState::disconnect);
    // Again, and by the other end: no error, nothing said.
    EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active), 0);
    EXPECT_EQ(w.b.cm.disconnect(w.now, ends.passive), 0);
    w.deliver();
    EXPECT_TRUE(w.a.quiet() && w.b.quiet());
    EXPECT_EQ(w.take_log(), "");
    w.advance_ms(60'000);
    EXPECT_EQ(w.a.expect(EventKind::timewait_exit).id, ends.active);
    EXPECT_EQ(w.b.expect(EventKind::timewait_exit).id, ends.passive);
  }
}

TEST(RdmaDisconnect, without_an_answer_is_a_timeout) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.established();
  w.lose = is<wire::CmDreq>;
  EXPECT_EQ(w.a.cm.disconnect(w.now, ends.active), 0);
  w.advance_ms(600'000);
  EXPECT_EQ(w.a.expect(EventKind::disconnected).status, -ETIMEDOUT);
  EXPECT_TRUE(w.b.quiet());
}

TEST(RdmaDisconnect, needs_a_connection) {
  RdmaWorld w;
  EXPECT_EQ(w.a.cm.disconnect(w.now, w.a.create()), EINVAL);
  EXPECT_EQ(w.a.cm.disconnect(w.now, w.routed(w.b.ip4)), EINVAL);
  EXPECT_EQ(w.b.cm.disconnect(w.now, w.b.listener(w.b.ip4)), EINVAL);
}

// ---- notify

TEST(RdmaNotify, data_that_overtakes_the_confirmation_establishes) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.replied();
  w.a.expect(EventKind::connect_response);
  w.lose = is<wire::CmRtu>;
  ASSERT_EQ(w.a.cm.accept(w.now, ends.active, nullptr), 0);
  w.deliver();
  EXPECT_EQ(w.b.cm.notify(w.now, ends.passive, IBV_EVENT_PATH_MIG), EINVAL);
  EXPECT_TRUE(w.b.quiet());
  EXPECT_EQ(w.b.cm.notify(w.now, ends.passive, IBV_EVENT_COMM_EST), 0);
  w.deliver();
  EXPECT_EQ(w.b.expect(EventKind::established).id, ends.passive);
  EXPECT_EQ(w.b.cm.notify(w.now, ends.passive, IBV_EVENT_COMM_EST), EISCONN);
  EXPECT_EQ(w.a.cm.notify(w.now, ends.active, IBV_EVENT_COMM_EST), EISCONN);
}

TEST(RdmaNotify, too_early_or_without_connection_is_refused) {
  RdmaWorld w;
  EXPECT_EQ(w.b.cm.notify(w.now, w.b.create(), IBV_EVENT_COMM_EST), EINVAL);
  const RdmaWorld::Ends ends = w.requested();
  EXPECT_EQ(w.b.cm.notify(w.now, ends.passive, IBV_EVENT_COMM_EST), EINVAL);
  EXPECT_EQ(w.a.cm.notify(w.now, ends.active, IBV_EVENT_COMM_EST), EINVAL);
}

}  // namespace
}  // namespace uroce::cm
