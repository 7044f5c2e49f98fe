// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One program, one queue pair, more groups than a socket takes (net.ipv4.igmp_max_memberships is 20). Usage:
// many_groups send|hear ADDRESS COUNT. The sender goes round all groups until it is killed. The hearer says
// "joined", ends with "left" when a message of each group has come and it has left them, and stays, so that
// its end is not what leaves.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "verbs_pair.h"

namespace {

constexpr size_t kGrhBytes = 40;
constexpr size_t kSlotBytes = 64;
constexpr uint32_t kSlots = 256;

struct Group {
  sockaddr_storage address{};
  ibv_ah_attr path{};
  uint32_t qpn = 0, qkey = 0;
};

sockaddr_storage parse(const std::string& text) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1)
    storage.ss_family = AF_INET;
  else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1)
    storage.ss_family = AF_INET6;
  else
    fail("%s is no address", text.c_str());
  return storage;
}

sockaddr* generic(sockaddr_storage& storage) {
  return reinterpret_cast<sockaddr*>(&storage);
}

class Member {
 public:
  Member(const char* own, uint32_t count) : groups_(count) {
    channel_ = rdma_create_event_channel();
    REQUIRE(channel_ != nullptr && rdma_create_id(channel_, &id_, nullptr, RDMA_PS_UDP) == 0);
    sockaddr_storage address = parse(own);
    REQUIRE(rdma_bind_addr(id_, generic(address)) == 0 && id_->verbs != nullptr);
    pd_ = ibv_alloc_pd(id_->verbs);
    REQUIRE(pd_ != nullptr);
    cq_ = ibv_create_cq(id_->verbs, 2 * kSlots, nullptr, nullptr, 0);
    memory_ = ibv_reg_mr(pd_, slots_, sizeof slots_, IBV_ACCESS_LOCAL_WRITE);
    REQUIRE(cq_ != nullptr && memory_ != nullptr);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_UD;
    init.cap = {4, kSlots, 1, 1, 0};
    REQUIRE(rdma_create_qp(id_, pd_, &init) == 0);
    for (uint32_t slot = 0; slot < kSlots; ++slot) post_receive(slot);
    const std::string prefix = address.ss_family == AF_INET ? "239.77.1." : "ff0e::77:";
    for (uint32_t i = 0; i < count; ++i) join(groups_[i], prefix + std::to_string(i + 1));
  }

  [[noreturn]] void send_for_ever() {
    std::vector<ibv_ah*> handles;
    for (Group& group : groups_) handles.push_back(ibv_create_ah(pd_, &group.path));
    for (;;) {
      for (uint32_t i = 0; i < groups_.size(); ++i) send(i, handles[i]);
      usleep(20'000);
    }
  }

  void hear_all() {
    std::vector<bool> heard(groups_.size());
    for (size_t missing = heard.size(); missing > 0;) {
      ibv_wc wc;
      const int n = ibv_poll_cq(cq_, 1, &wc);
      REQUIRE(n >= 0);
      if (n == 0) {
        usleep(1000);
        continue;
      }
      REQUIRE(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && (wc.wc_flags & IBV_WC_GRH) != 0);
      const char* slot = slots_[wc.wr_id];
      uint32_t index;
      std::memcpy(&index, slot + kGrhBytes, sizeof index);
      REQUIRE(index < groups_.size());
      // An IPv4 header is in the last 20 bytes of the place of the GRH, so both end with the destination.
      const auto& group = groups_[index].path.grh.dgid.raw;
      const size_t length = groups_[index].address.ss_family == AF_INET ? 4 : 16;
      if (std::memcmp(slot + kGrhBytes - length, group + 16 - length, length) != 0)
        fail("the message of group %u came to another", index);
      if (!heard[index]) --missing;
      heard[index] = true;
      post_receive(static_cast<uint32_t>(wc.wr_id));
    }
  }

  void leave_all() {
    for (Group& group : groups_) REQUIRE(rdma_leave_multicast(id_, generic(group.address)) == 0);
  }

 private:
  void join(Group& group, const std::string& name) {
    group.address = parse(name);
    if (rdma_join_multicast(id_, generic(group.address), &group) != 0)
      fail("%s: not joined, errno %d", name.c_str(), errno);
    rdma_cm_event* event = nullptr;
    REQUIRE(rdma_get_cm_event(channel_, &event) == 0);
    if (event->event != RDMA_CM_EVENT_MULTICAST_JOIN || event->status != 0)
      fail("%s: %s, status %d", name.c_str(), rdma_event_str(event->event), event->status);
    REQUIRE(event->param.ud.private_data == &group);
    group.path = event->param.ud.ah_attr;
    group.qpn = event->param.ud.qp_num;
    group.qkey = event->param.ud.qkey;
    REQUIRE(rdma_ack_cm_event(event) == 0);
  }

  void post_receive(uint32_t slot) {
    ibv_sge part{reinterpret_cast<uintptr_t>(slots_[slot]), kSlotBytes, memory_->lkey};
    ibv_recv_wr request{}, *bad;
    request.wr_id = slot;
    request.sg_list = &part;
    request.num_sge = 1;
    REQUIRE(ibv_post_recv(id_->qp, &request, &bad) == 0);
  }

  void send(uint32_t index, ibv_ah* handle) {
    REQUIRE(handle != nullptr);
    std::memcpy(message_, &index, sizeof index);
    ibv_sge part{reinterpret_cast<uintptr_t>(message_), sizeof index, 0};
    ibv_send_wr request{}, *bad;
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud = {handle, groups_[index].qpn, groups_[index].qkey};
    part.lkey = memory_->lkey;
    REQUIRE(ibv_post_send(id_->qp, &request, &bad) == 0);
    // Its own messages are not heard again, but others' may be.
    for (ibv_wc wc;;) {
      const int n = ibv_poll_cq(cq_, 1, &wc);
      REQUIRE(n >= 0);
      if (n == 0) continue;
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      if (wc.opcode == IBV_WC_SEND) return;
      post_receive(static_cast<uint32_t>(wc.wr_id));
    }
  }

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* memory_ = nullptr;
  std::vector<Group> groups_;
  char slots_[kSlots + 1][kSlotBytes] = {};
  char* const message_ = slots_[kSlots];
};

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(argc == 4);
  static Member member(argv[2], static_cast<uint32_t>(std::stoul(argv[3])));
  if (std::string(argv[1]) == "send") member.send_for_ever();
  std::puts("joined");
  std::fflush(stdout);
  member.hear_all();
  member.leave_all();
  std::puts("left");
  std::fflush(stdout);
  pause();
}
