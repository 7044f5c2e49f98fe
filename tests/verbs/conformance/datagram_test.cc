// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// UD: the 40 bytes in front of a message, answers to them, and multicast groups.
#include <arpa/inet.h>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

constexpr uint32_t kQkey = 0x1234567;
constexpr size_t kGrh = 40;

class Datagram : public Pair {
 protected:
  Qp ready() {
    Qp made = qp(IBV_QPT_UD, queue.get());
    bring_up(made.get(), 0);
    return made;
  }
  Ah handle_to(const ibv_gid& destination) {
    ibv_ah_attr attributes = attributes_to(IBV_QPS_RTR, destination, gid_index, 0).ah_attr;
    return Ah(ibv_create_ah(pd.get(), &attributes));
  }
  void send(ibv_qp* from, ibv_ah* ah, uint32_t qpn, uint32_t bytes = 8, uint32_t qkey = kQkey) {
    ibv_sge list = sge(0, bytes);
    ibv_send_wr wr = send_wr(IBV_WR_SEND, &list);
    wr.wr.ud = {ah, qpn, qkey};
    ASSERT_EQ(post(from, wr), 0);
  }
  // The receive's completion; the send's is dropped.
  ibv_wc await_receive() {
    for (const ibv_wc& wc : await(queue.get(), 2)) {
      if (wc.opcode == IBV_WC_RECV) return wc;
    }
    ADD_FAILURE() << "nothing was received";
    return {};
  }
  static ibv_gid group(const char* text) {
    ibv_gid to{};
    to.raw[10] = to.raw[11] = 0xff;
    EXPECT_EQ(inet_pton(AF_INET, text, to.raw + 12), 1);
    return to;
  }
};

TEST_F(Datagram, the_header_area_tells_who_sent_it) {
  Qp from = ready(), to = ready();
  const Ah ah = handle_to(gid);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(post_recv(to.get(), sge(1000, 200)), 0);
  send(from.get(), ah.get(), to->qp_num, 16);
  ibv_wc wc = await_receive();
  EXPECT_EQ(wc.byte_len, 16 + kGrh);
  EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
  EXPECT_EQ(wc.src_qp, from->qp_num);
  EXPECT_EQ(static_cast<unsigned char>(buffer[1020]), 0x45) << "an IPv4 header stands at its end";

  ibv_ah_attr back{};
  ASSERT_EQ(ibv_init_ah_from_wc(context, 1, &wc, reinterpret_cast<ibv_grh*>(&buffer[1000]), &back), 0);
  EXPECT_EQ(std::memcmp(&back.grh.dgid, &gid, sizeof(gid)), 0);
  const Ah answer(ibv_create_ah_from_wc(pd.get(), &wc, reinterpret_cast<ibv_grh*>(&buffer[1000]), 1));
  ASSERT_NE(answer, nullptr);
  ASSERT_EQ(post_recv(from.get(), sge(2000, 200)), 0);
  send(to.get(), answer.get(), wc.src_qp);
  EXPECT_EQ(await_receive().src_qp, to->qp_num);
}

TEST_F(Datagram, addresses_that_cannot_be_are_refused) {
  ibv_ah_attr attributes = attributes_to(IBV_QPS_RTR, gid, gid_index, 0).ah_attr;
  const auto refused = [&](ibv_ah_attr a) {
    errno = 0;
    return ibv_create_ah(pd.get(), &a) == nullptr && errno == EINVAL;
  };
  ibv_ah_attr wrong = attributes;
  wrong.is_global = 0;
  EXPECT_TRUE(refused(wrong));
  wrong = attributes;
  wrong.port_num = 2;
  EXPECT_TRUE(refused(wrong));
  wrong = attributes;
  wrong.grh.sgid_index = 127;
  EXPECT_TRUE(refused(wrong));
  wrong = attributes;
  wrong.grh.dgid = {};
  EXPECT_TRUE(refused(wrong));
}

TEST_F(Datagram, a_handle_holds_its_domain) {
  Pd other(ibv_alloc_pd(context));
  ibv_ah_attr attributes = attributes_to(IBV_QPS_RTR, gid, gid_index, 0).ah_attr;
  Ah ah(ibv_create_ah(other.get(), &attributes));
  EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
  ah.reset();
}

TEST_F(Datagram, a_message_beyond_the_mtu_is_refused) {
  Qp from = ready();
  const Ah ah = handle_to(gid);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  ibv_sge list = sge(0, (128u << port.active_mtu) + 1);
  ibv_send_wr wr = send_wr(IBV_WR_SEND, &list);
  wr.wr.ud = {ah.get(), from->qp_num, kQkey};
  EXPECT_EQ(post(from.get(), wr), EINVAL);
}

TEST_F(Datagram, groups_are_joined_by_datagram_queue_pairs_only) {
  const ibv_gid some = group("239.1.2.3");
  EXPECT_EQ(ibv_attach_mcast(left.get(), &some, 0), EINVAL);
  Qp member = ready();
  EXPECT_EQ(ibv_attach_mcast(member.get(), &gid, 0), EINVAL) << "no group";
  EXPECT_EQ(ibv_detach_mcast(member.get(), &some, 0), EINVAL) << "not attached";
  ASSERT_EQ(ibv_attach_mcast(member.get(), &some, 0), 0);
  EXPECT_EQ(ibv_attach_mcast(member.get(), &some, 0), 0) << "twice is once";
  EXPECT_EQ(ibv_destroy_qp(member.get()), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(member.get(), &some, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(member.get(), &some, 0), EINVAL);
}

TEST_F(Datagram, all_members_of_a_group_get_a_copy) {
  const ibv_gid some = group("239.1.2.4");
  Qp from = ready(), first = ready(), second = ready();
  for (ibv_qp* member : {first.get(), second.get()}) {
    ASSERT_EQ(ibv_attach_mcast(member, &some, 0), 0);
    ASSERT_EQ(post_recv(member, sge(1000, 200)), 0);
  }
  {
    const Ah ah = handle_to(some);
    ASSERT_NE(ah, nullptr);
    send(from.get(), ah.get(), 0xffffff);
    int received = 0;
    for (const ibv_wc& wc : await(queue.get(), 3)) received += wc.opcode == IBV_WC_RECV;
    EXPECT_EQ(received, 2);
  }
  for (ibv_qp* member : {first.get(), second.get()}) EXPECT_EQ(ibv_detach_mcast(member, &some, 0), 0);
}

// More than one socket of the host can join (net.ipv4.igmp_max_memberships is 20).
TEST_F(Datagram, a_queue_pair_is_a_member_of_many_groups) {
  constexpr int kGroups = 50;
  const auto nth = [](int i) { return group(("239.1.3." + std::to_string(i)).c_str()); };
  Qp from = ready(), member = ready();
  for (int i = 0; i < kGroups; ++i) {
    const ibv_gid one = nth(i);
    ASSERT_EQ(ibv_attach_mcast(member.get(), &one, 0), 0) << i;
  }
  for (const int i : {0, kGroups - 1}) {
    ASSERT_EQ(post_recv(member.get(), sge(1000, 200)), 0);
    const Ah ah = handle_to(nth(i));
    ASSERT_NE(ah, nullptr);
    send(from.get(), ah.get(), 0xffffff);
    await_receive();
  }
  for (int i = 0; i < kGroups; ++i) {
    const ibv_gid one = nth(i);
    EXPECT_EQ(ibv_detach_mcast(member.get(), &one, 0), 0) << i;
  }
}

}  // namespace
}  // namespace conformance
