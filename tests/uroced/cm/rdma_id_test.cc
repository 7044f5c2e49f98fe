// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <cstring>

#include "tests/uroced/cm/rdma_world.h"

namespace uroce::cm {
namespace {

using test::at;
using test::parameters;
using test::RdmaWorld;
using test::Side;

template <typename Value>
int set(Side& side, uint32_t id, uint32_t name, Value value) {
  return side.cm.set_option(id, RDMA_OPTION_ID, name, std::as_bytes(std::span(&value, 1)));
}

// ---- create

TEST(RdmaId, the_port_space_says_the_type_of_the_queue_pair) {
  Side side(1);
  const auto type = [&](uint16_t space, QpType asked) {
    return side.cm.find(side.create(space, asked))->qp_type;
  };
  EXPECT_EQ(type(RDMA_PS_TCP, QpType::ud), QpType::rc);
  EXPECT_EQ(type(RDMA_PS_UDP, QpType::rc), QpType::ud);
  EXPECT_EQ(type(RDMA_PS_IPOIB, QpType::rc), QpType::ud);
  for (const QpType asked : {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_ini, QpType::xrc_tgt})
    EXPECT_EQ(type(RDMA_PS_IB, asked), asked);
  EXPECT_EQ(type(RDMA_PS_IB, static_cast<QpType>(0)), QpType::rc);
  uint32_t id = 0;
  EXPECT_EQ(side.cm.create(0x0107, 2, id), EINVAL);
}

TEST(RdmaId, numbers_are_not_used_again_soon_and_run_out) {
  Side side(1);
  const uint32_t first = side.create();
  side.cm.destroy({}, first);
  EXPECT_NE(side.create(), first);
  while (side.cm.count() < RdmaCm::kMostIds) side.create();
  uint32_t id = 0;
  EXPECT_EQ(side.cm.create(RDMA_PS_TCP, 2, id), ENOMEM);
  side.cm.destroy({}, 4711);
  EXPECT_EQ(side.create(), 4711u);
}

TEST(RdmaId, calls_for_one_that_is_not_there_say_so) {
  Side side(1);
  const rdma_ucm_conn_param p{};
  ib_uverbs_qp_attr attributes{};
  uint32_t group = 0;
  EXPECT_EQ(side.cm.bind(9, side.ip4, true), ENOENT);
  EXPECT_EQ(side.cm.resolve_address({}, 9, {}, side.ip4, 1, true), ENOENT);
  EXPECT_EQ(side.cm.resolve_route(9), ENOENT);
  EXPECT_EQ(side.cm.listen(9), ENOENT);
  EXPECT_EQ(side.cm.connect({}, 9, p), ENOENT);
  EXPECT_EQ(side.cm.accept({}, 9, &p), ENOENT);
  EXPECT_EQ(side.cm.reject({}, 9, 0, {}), ENOENT);
  EXPECT_EQ(side.cm.disconnect({}, 9), ENOENT);
  EXPECT_EQ(side.cm.notify({}, 9, 0), ENOENT);
  EXPECT_EQ(side.cm.set_option(9, RDMA_OPTION_ID, 0, {}), ENOENT);
  EXPECT_EQ(side.cm.init_qp_attributes(9, 1, attributes), ENOENT);
  EXPECT_EQ(side.cm.join(9, side.ip4, group), ENOENT);
  EXPECT_EQ(side.cm.leave(9, 1), ENOENT);
  side.cm.destroy({}, 9);
}

// ---- bind

TEST(RdmaBind, an_own_address_takes_its_device_and_port) {
  Side side(1);
  const uint32_t id = side.create();
  EXPECT_EQ(side.cm.bind(id, side.ip4, false), 0);
  EXPECT_EQ(side.state(id), IdState::address_bound);
  EXPECT_EQ(side.cm.find(id)->source, side.ip4);
  EXPECT_EQ(side.cm.find(id)->port->device, 7u);
  EXPECT_EQ(side.cm.find(id)->port->ifindex, 2u);
  EXPECT_EQ(side.cm.bind(id, side.ip4, false), EINVAL);  // again
}

TEST(RdmaBind, a_wildcard_has_no_device_yet) {
  Side side(1);
  const uint32_t id = side.create();
  EXPECT_EQ(side.cm.bind(id, Address::any(AF_INET6), false), 0);
  EXPECT_FALSE(side.cm.find(id)->port.has_value());
  EXPECT_NE(side.cm.find(id)->source.port, 0);
}

TEST(RdmaBind, what_cannot_be_bound_has_its_errno) {
  Side side(1), other(2);
  const uint32_t id = side.create();
  EXPECT_EQ(side.cm.bind(id, other.ip4, true), EADDRNOTAVAIL);
  EXPECT_EQ(side.cm.bind(id, Address::of(side.host.own[3].ip, 0), true), ENODEV);
  Address nowhere = side.link_local;
  nowhere.scope = 0;
  EXPECT_EQ(side.cm.bind(id, nowhere, true), EINVAL);
  nowhere.scope = 3;
  EXPECT_EQ(side.cm.bind(id, nowhere, true), EADDRNOTAVAIL);
  Address mapped = side.ip4;
  mapped.family = AF_INET6;
  EXPECT_EQ(side.cm.bind(id, mapped, true), EADDRNOTAVAIL);
  Address ib = side.ip6;
  ib.family = kAfIb;
  EXPECT_EQ(side.cm.bind(id, ib, true), ENODEV);
  EXPECT_EQ(side.cm.bind(id, Address{}, true), EAFNOSUPPORT);
  // Nothing of it is left.
  EXPECT_EQ(side.state(id), IdState::idle);
  EXPECT_EQ(side.cm.find(id)->source, Address{});
  EXPECT_EQ(side.cm.bind(id, side.link_local, true), 0);
}

TEST(RdmaBind, the_same_link_local_address_on_another_netdev_is_another_device) {
  Side side(1);
  Address there = side.link_local;
  there.scope = 4;
  const uint32_t id = side.create();
  EXPECT_EQ(side.cm.bind(id, there, true), 0);
  EXPECT_EQ(side.cm.find(id)->port->device, 8u);
}

TEST(RdmaBind, privileged_ports_need_privilege) {
  Side side(1);
  const uint32_t id = side.create();
  EXPECT_EQ(side.cm.bind(id, at(side.ip4, 1023), false), EACCES);
  EXPECT_EQ(side.state(id), IdState::idle);
  EXPECT_EQ(side.cm.bind(id, at(side.ip4, 1023), true), 0);
  EXPECT_EQ(side.cm.bind(side.create(), at(side.ip4, 1024), false), 0);
}

TEST(RdmaBind, port_zero_is_one_of_the_range_until_there_is_none) {
  Side side(1);
  side.host.range = {40000, 40001};
  const uint32_t first = side.create(), second = side.create(), third = side.create();
  EXPECT_EQ(side.cm.bind(first, at(side.ip4, 0), false), 0);
  EXPECT_EQ(side.cm.bind(second, at(side.ip4, 0), false), 0);
  EXPECT_EQ(side.cm.find(first)->source.port + side.cm.find(second)->source.port, 80001);
  EXPECT_EQ(side.cm.bind(third, at(side.ip4, 0), false), EADDRNOTAVAIL);
  side.cm.destroy({}, first);
  EXPECT_EQ(side.cm.bind(third, at(side.ip4, 0), false), 0);
}

TEST(RdmaBind, a_port_is_taken_once) {
  Side side(1);
  const uint32_t first = side.create(), second = side.create();
  ASSERT_EQ(side.cm.bind(first, side.ip4, false), 0);
  EXPECT_EQ(side.cm.bind(second, side.ip4, false), EADDRINUSE);
  EXPECT_EQ(side.cm.bind(second, at(Address::any(AF_INET), side.ip4.port), false), EADDRNOTAVAIL);
  EXPECT_EQ(side.cm.bind(side.create(RDMA_PS_UDP), side.ip4, false), 0);
  side.cm.destroy({}, first);
  EXPECT_EQ(side.cm.bind(second, side.ip4, false), 0);
}

TEST(RdmaBind, af_ib_is_probed_with_its_wildcard) {
  Side side(1);
  const uint32_t id = side.create();
  EXPECT_EQ(side.cm.bind(id, Address::any(kAfIb), false), 0);
  EXPECT_EQ(side.cm.listen(id), EAFNOSUPPORT);
}

// ---- listen

TEST(RdmaListen, unbound_it_is_any_ipv4_address) {
  Side side(1);
  const uint32_t id = side.create();
  EXPECT_EQ(side.cm.listen(id), 0);
  EXPECT_EQ(side.state(id), IdState::listen);
  EXPECT_EQ(side.cm.find(id)->source.family, AF_INET);
  EXPECT_TRUE(side.cm.find(id)->source.is_any());
  EXPECT_EQ(side.cm.listen(id), EINVAL);
  side.host.range = {40000, 40000};
  ASSERT_EQ(side.cm.bind(side.create(), at(side.ip4, 0), false), 0);
  EXPECT_EQ(side.cm.listen(side.create()), EADDRNOTAVAIL);
}

TEST(RdmaListen, of_those_that_share_a_port_by_reuse_one_may) {
  Side side(1);
  const uint32_t first = side.create(), second = side.create();
  for (const uint32_t id : {first, second}) {
    ASSERT_EQ(set(side, id, RDMA_OPTION_ID_REUSEADDR, 1), 0);
    ASSERT_EQ(side.cm.bind(id, side.ip4, false), 0);
  }
  EXPECT_EQ(side.cm.listen(first), EADDRINUSE);
  side.cm.destroy({}, second);
  EXPECT_EQ(side.cm.listen(first), 0);
  // From then on nobody joins it.
  const uint32_t third = side.create();
  ASSERT_EQ(set(side, third, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(side.cm.bind(third, side.ip4, false), EADDRINUSE);
}

// ---- options

TEST(RdmaOption, reuse_can_be_taken_back_before_bind_only) {
  Side side(1);
  const uint32_t id = side.create();
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_REUSEADDR, 0), 0);
  ASSERT_EQ(side.cm.bind(id, side.ip4, false), 0);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
  // The port table has heard of it.
  const uint32_t other = side.create();
  ASSERT_EQ(set(side, other, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(side.cm.bind(other, side.ip4, false), 0);
  side.cm.destroy({}, other);
  ASSERT_EQ(side.cm.listen(id), 0);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
}

// As in the kernel: IPv4 keeps to itself, IPv6 does if it is told.
TEST(RdmaOption, ipv4_and_ipv6_share_a_port_when_ipv6_keeps_to_itself) {
  Side side(1);
  side.listener(at(Address::any(AF_INET), 5000));
  const uint32_t ipv6 = side.create();
  EXPECT_EQ(side.cm.bind(ipv6, at(Address::any(AF_INET6), 5000), false), EADDRNOTAVAIL);
  EXPECT_EQ(set(side, ipv6, RDMA_OPTION_ID_AFONLY, 1), 0);
  EXPECT_EQ(side.cm.bind(ipv6, at(Address::any(AF_INET6), 5000), false), 0);
  EXPECT_EQ(side.cm.listen(ipv6), 0);
  EXPECT_EQ(set(side, ipv6, RDMA_OPTION_ID_AFONLY, 0), EINVAL);  // too late
}

TEST(RdmaOption, the_ack_timeout_is_for_those_who_wait_for_one) {
  Side side(1);
  for (const QpType type : {QpType::rc, QpType::xrc_ini}) {
    const uint32_t id = side.create(RDMA_PS_IB, type);
    EXPECT_EQ(set(side, id, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{31}), 0);
    EXPECT_EQ(side.cm.find(id)->ack_timeout, 31);
    EXPECT_EQ(set(side, id, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{32}), EINVAL);
  }
  for (const QpType type : {QpType::uc, QpType::ud, QpType::xrc_tgt})
    EXPECT_EQ(set(side, side.create(RDMA_PS_IB, type), RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{14}), EINVAL);
}

TEST(RdmaOption, sizes_and_names_are_looked_at) {
  Side side(1);
  const uint32_t id = side.create();
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_TOS, uint8_t{0x68}), 0);
  EXPECT_EQ(side.cm.find(id)->tos, 0x68);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_TOS, 0x68), EINVAL);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_REUSEADDR, uint8_t{1}), EINVAL);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_AFONLY, uint8_t{1}), EINVAL);
  EXPECT_EQ(set(side, id, RDMA_OPTION_ID_ACK_TIMEOUT, 14), EINVAL);
  EXPECT_EQ(set(side, id, 99, 1), ENOSYS);
  EXPECT_EQ(side.cm.set_option(id, RDMA_OPTION_IB, 1, {}), ENOSYS);
}

// ---- destroy

TEST(RdmaDestroy, while_an_address_is_looked_for_forgets_the_question) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::asked;
  const uint32_t id = w.a.create();
  ASSERT_EQ(w.a.cm.resolve_address(w.now, id, {}, w.b.ip4, 2000, false), 0);
  w.a.cm.destroy(w.now, id);
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
  w.advance_ms(5000);
  EXPECT_TRUE(w.a.quiet());
}

TEST(RdmaDestroy, of_either_end_ends_the_other) {
  const auto active = [](RdmaWorld& w, const RdmaWorld::Ends& e) { w.a.cm.destroy(w.now, e.active); };
  const auto passive = [](RdmaWorld& w, const RdmaWorld::Ends& e) { w.b.cm.destroy(w.now, e.passive); };
  {
    RdmaWorld w;  // the request is unanswered
    active(w, w.requested());
    w.deliver();
    EXPECT_EQ(w.b.expect(EventKind::rejected).status, 4);  // timeout
  }
  {
    RdmaWorld w;
    passive(w, w.requested());
    w.deliver();
    EXPECT_EQ(w.a.expect(EventKind::rejected).status, 28);
  }
  {
    RdmaWorld w;  // the reply is unanswered
    active(w, w.replied());
    w.deliver();
    EXPECT_EQ(w.b.expect(EventKind::rejected).status, 28);
  }
  {
    RdmaWorld w;
    passive(w, w.replied());
    w.deliver();
    w.a.expect(EventKind::connect_response);
    w.a.expect(EventKind::disconnected);
  }
  {
    RdmaWorld w;
    active(w, w.established());
    w.deliver();
    w.b.expect(EventKind::disconnected);
    EXPECT_TRUE(w.a.quiet());
  }
  {
    RdmaWorld w;
    passive(w, w.established());
    w.deliver();
    w.a.expect(EventKind::disconnected);
    w.advance_ms(60'000);
    w.a.expect(EventKind::timewait_exit);
    EXPECT_TRUE(w.a.quiet() && w.b.quiet());
  }
}

TEST(RdmaDestroy, of_a_question_for_a_service_is_answered_with_no) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.requested(RDMA_PS_UDP, QpType::ud, QpType::ud);
  w.b.cm.destroy(w.now, ends.passive);
  w.deliver();
  EXPECT_EQ(w.a.expect(EventKind::unreachable).status, 2);
}

TEST(RdmaDestroy, of_a_listener_takes_the_requests_along_that_nobody_has_heard_of) {
  RdmaWorld w;
  const uint32_t listener = w.b.listener(w.b.ip4);
  for (const uint32_t active : {w.routed(w.b.ip4), w.routed(w.b.ip4)}) {
    ASSERT_EQ(w.a.cm.connect(w.now, active, parameters(0x111 + active)), 0);
    const auto out = w.a.cm.poll_transmit();
    ASSERT_TRUE(out.has_value());
    Route back{7, {w.b.ip4.ip, w.a.ip4.ip}};
    back.path.ifindex = 2;
    w.b.cm.on_mad(w.now, back, out->mad);
  }
  const auto heard = w.b.cm.poll_event();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(w.b.cm.count(), 3u);
  w.b.cm.destroy(w.now, listener);
  EXPECT_EQ(w.b.cm.count(), 1u);
  EXPECT_NE(w.b.cm.find(heard->new_id), nullptr);
  w.deliver();
  EXPECT_TRUE(w.b.quiet());
  EXPECT_EQ(w.a.expect(EventKind::rejected).status, 28);
  EXPECT_TRUE(w.a.quiet());
  // The one that was heard of lives on.
  const rdma_ucm_conn_param answer = parameters(0x222);
  EXPECT_EQ(w.b.cm.accept(w.now, heard->new_id, &answer), 0);
}

TEST(RdmaDestroy, events_that_wait_are_not_told_any_more) {
  RdmaWorld w;
  const uint32_t id = w.a.create();
  ASSERT_EQ(w.a.cm.resolve_address(w.now, id, {}, w.b.ip4, 2000, false), 0);
  w.a.cm.destroy(w.now, id);
  EXPECT_FALSE(w.a.cm.poll_event().has_value());
}

// ---- devices and workers that go

TEST(RdmaRemoval, tells_all_identifiers_of_the_device_and_no_other) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.established();
  const uint32_t any = w.b.listener(at(Address::any(AF_INET6), 5000));
  const uint32_t elsewhere = w.b.listener(Address::of(w.b.host.own[4].ip, 5001));
  w.b.cm.on_device_removed(7);
  w.deliver();
  uint32_t told = 0;
  for (int i = 0; i < 2; ++i) told += w.b.expect(EventKind::device_removal).id;
  EXPECT_EQ(told, ends.listener + ends.passive);
  EXPECT_TRUE(w.b.quiet());
  EXPECT_EQ(w.take_log(), "");  // there is no device to say it with
  EXPECT_EQ(w.b.state(ends.passive), IdState::device_removal);
  EXPECT_EQ(w.b.state(any), IdState::listen);
  EXPECT_EQ(w.b.state(elsewhere), IdState::listen);
  w.b.cm.on_device_removed(7);
  EXPECT_FALSE(w.b.cm.poll_event().has_value());
}

TEST(RdmaRemoval, leaves_identifiers_that_can_be_destroyed_and_nothing_else) {
  RdmaWorld w;
  const RdmaWorld::Ends ends = w.established();
  w.b.cm.on_device_removed(7);
  w.deliver();
  ib_uverbs_qp_attr attributes{};
  const rdma_ucm_conn_param p = parameters();
  uint32_t group = 0;
  EXPECT_FALSE(w.b.cm.find(ends.passive)->port.has_value());  // nobody asks about the device again
  EXPECT_EQ(w.b.cm.init_qp_attributes(ends.passive, 1, attributes), EINVAL);
  EXPECT_EQ(w.b.cm.accept(w.now, ends.passive, &p), EINVAL);
  EXPECT_EQ(w.b.cm.reject(w.now, ends.passive, 0, {}), EINVAL);
  EXPECT_EQ(w.b.cm.disconnect(w.now, ends.passive), EINVAL);
  EXPECT_EQ(w.b.cm.join(ends.passive, w.b.ip4, group), EINVAL);
  EXPECT_EQ(w.b.cm.listen(ends.listener), EINVAL);
  w.b.cm.destroy(w.now, ends.passive);
  w.b.cm.destroy(w.now, ends.listener);
  EXPECT_EQ(w.b.cm.count(), 0u);
  // The port is free.
  w.b.listener(w.b.ip4);
}

TEST(RdmaRemoval, while_an_address_is_looked_for) {
  RdmaWorld w;
  w.a.host.peers = Neighbour::asked;
  const uint32_t id = w.a.create();
  ASSERT_EQ(w.a.cm.resolve_address(w.now, id, w.a.ip4, w.b.ip4, 2000, false), 0);
  w.a.cm.on_device_removed(7);
  w.deliver();
  w.a.expect(EventKind::device_removal);
  EXPECT_FALSE(w.a.cm.next_deadline().has_value());
}

TEST(RdmaRestore, one_of_an_earlier_worker_can_be_destroyed_only) {
  RdmaWorld w;
  w.a.cm.restore_dead(3, RDMA_PS_TCP);
  EXPECT_EQ(w.a.state(3), IdState::device_removal);
  EXPECT_EQ(w.a.cm.find(3)->number, 3u);
  EXPECT_EQ(w.a.cm.find(3)->port_space, RDMA_PS_TCP);
  EXPECT_EQ(w.a.cm.bind(3, w.a.ip4, true), EINVAL);
  EXPECT_EQ(w.a.cm.resolve_address(w.now, 3, {}, w.b.ip4, 1, true), EINVAL);
  EXPECT_EQ(w.a.cm.listen(3), EINVAL);
  EXPECT_EQ(w.a.cm.connect(w.now, 3, parameters()), EINVAL);
  EXPECT_EQ(w.a.cm.disconnect(w.now, 3), EINVAL);
  for (int i = 0; i < 3; ++i) EXPECT_NE(w.a.create(), 3u);  // the number is taken
  w.a.cm.destroy(w.now, 3);
  EXPECT_EQ(w.a.cm.find(3), nullptr);
}

}  // namespace
}  // namespace uroce::cm
