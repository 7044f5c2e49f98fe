// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The commands as such: objects, their users, keys and numbers; nothing of sockets.
#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {
namespace {

constexpr uint32_t kRc = 2, kUd = 4, kXrcTarget = 10;

class FakeHost final : public UverbsHost {
 public:
  explicit FakeHost(Registry& registry) : registry_(registry) {}
  uint32_t open_context(uint32_t, uint32_t, std::string& why) override {
    if (slots_left == 0) {
      why = "no slot";
      errno = ENOMEM;
      return 0;
    }
    slots_left--;
    registry_.edit(registry_.context(1)).state = SlotState::live;
    registry_.edit(registry_.context(1).cookie) = 77;
    return 1;
  }
  DeviceFacts facts(uint32_t) const override {
    DeviceFacts facts;
    facts.up = true;
    facts.mtu = 3;
    facts.node_guid_be = 9;
    return facts;
  }
  int slots_left = 1;

 private:
  Registry& registry_;
};

class UverbsObjects : public ::testing::Test {
 protected:
  ~UverbsObjects() override { munmap(state, sizeof *state); }
  void SetUp() override {
    registry.edit(state->devices[0].live) = 1;
    slot = 1;
    registry.edit(state->contexts[1].state) = SlotState::live;
    registry.edit(state->contexts[1].pid) = static_cast<uint32_t>(getpid());
  }

  // One legacy command, undone when it fails, as the server does.
  template <typename Request, typename Response = int, typename Driver = int>
  int run(uint32_t number, const Request& request, Response* response = nullptr, Driver* driver = nullptr) {
    const size_t room =
        (response != nullptr ? sizeof(Response) : 0) + (driver != nullptr ? sizeof(Driver) : 0);
    const ib_uverbs_cmd_hdr header{number, static_cast<uint16_t>((sizeof header + sizeof request) / 4),
                                   static_cast<uint16_t>(room / 4)};
    std::vector<std::byte> written(sizeof header + sizeof request);
    std::memcpy(written.data(), &header, sizeof header);
    std::memcpy(written.data() + sizeof header, &request, sizeof request);
    const auto answer = carry_out(written);
    if (response != nullptr && answer.size() >= sizeof *response)
      std::memcpy(response, answer.data(), sizeof *response);
    if (driver != nullptr && answer.size() >= sizeof *response + sizeof *driver)
      std::memcpy(driver, answer.data() + sizeof *response, sizeof *driver);
    return status;
  }

  std::vector<std::byte> carry_out(std::span<const std::byte> written) {
    Command command;
    status = parse_command(written, uverbs_shapes(), command);
    if (status != 0) return {};
    CommandReply reply(command);
    UverbsCall call{registry, host, 5, 0, slot, getpid(), {}, command, reply};
    registry.begin();
    status = execute_uverbs(call);
    if (status == 0) {
      registry.commit();
      slot = call.slot;
      return reply.bytes();
    }
    registry.roll_back();
    return {};
  }

  uint32_t pd() {
    ib_uverbs_alloc_pd_resp response{};
    run(IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, &response);
    return response.pd_handle;
  }
  uint32_t cq() {
    ib_uverbs_create_cq request{};
    request.cqe = 8;
    ib_uverbs_create_cq_resp response{};
    run(IB_USER_VERBS_CMD_CREATE_CQ, request, &response);
    return response.cq_handle;
  }
  ib_uverbs_create_qp_resp qp(uint32_t pd_handle, uint32_t cq_handle, uint32_t type = kRc) {
    ib_uverbs_create_qp request{};
    request.pd_handle = pd_handle;
    request.send_cq_handle = request.recv_cq_handle = cq_handle;
    request.max_send_wr = request.max_recv_wr = request.max_send_sge = request.max_recv_sge = 1;
    request.qp_type = static_cast<uint8_t>(type);
    ib_uverbs_create_qp_resp response{};
    run(IB_USER_VERBS_CMD_CREATE_QP, request, &response);
    return response;
  }
  int dealloc_pd(uint32_t handle) {
    return run(IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{.pd_handle = handle});
  }
  int destroy_qp(uint32_t handle) {
    ib_uverbs_destroy_qp request{};
    request.qp_handle = handle;
    ib_uverbs_destroy_qp_resp response{};
    return run(IB_USER_VERBS_CMD_DESTROY_QP, request, &response);
  }
  int destroy_cq(uint32_t handle) {
    ib_uverbs_destroy_cq request{};
    request.cq_handle = handle;
    ib_uverbs_destroy_cq_resp response{};
    return run(IB_USER_VERBS_CMD_DESTROY_CQ, request, &response);
  }

  State* made() {
    std::string why;
    State* fresh = create_state(memory, why);
    if (fresh == nullptr) throw std::runtime_error(why);
    return fresh;
  }

  Fd memory;
  State* state = made();
  Registry registry{*state};
  FakeHost host{registry};
  uint32_t slot = 0;
  int status = 0;
};

TEST_F(UverbsObjects, get_context_comes_first_and_once) {
  slot = 0;
  EXPECT_EQ(pd(), 0u);
  EXPECT_EQ(status, EINVAL);
  ib_uverbs_get_context_resp response{};
  EXPECT_EQ(run(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, &response), EINVAL)
      << "without room for our part of the answer";
  uroce_get_context_resp ours{};
  EXPECT_EQ(run(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, &response, &ours), 0);
  EXPECT_EQ(ours.abi_version, static_cast<uint32_t>(UROCE_ABI_VERSION));
  EXPECT_EQ(ours.slot, 1u);
  EXPECT_EQ(ours.cookie, 77u);
  EXPECT_EQ(run(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, &response, &ours), EINVAL);
}

TEST_F(UverbsObjects, get_context_of_a_device_that_is_gone_or_without_a_free_slot) {
  slot = 0;
  ib_uverbs_get_context_resp response{};
  uroce_get_context_resp ours{};
  host.slots_left = 0;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, &response, &ours), ENOMEM);
  registry.edit(state->devices[0].live) = 0;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, &response, &ours), EIO);
}

TEST_F(UverbsObjects, what_is_used_cannot_be_freed) {
  const uint32_t p = pd(), c = cq();
  const auto q = qp(p, c);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(dealloc_pd(p), EBUSY);
  EXPECT_EQ(destroy_cq(c), EBUSY);
  EXPECT_EQ(destroy_qp(q.qp_handle), 0);
  EXPECT_EQ(destroy_qp(q.qp_handle), EINVAL) << "twice";
  EXPECT_EQ(destroy_cq(c), 0);
  EXPECT_EQ(dealloc_pd(p), 0);
  EXPECT_EQ(state->contexts[1].object_count, 0u);
  EXPECT_EQ(state->contexts[1].first_object, 0u);
}

TEST_F(UverbsObjects, another_contexts_objects_are_not_there) {
  const uint32_t p = pd(), c = cq();
  registry.edit(state->contexts[2].state) = SlotState::live;
  slot = 2;
  EXPECT_EQ(dealloc_pd(p), EINVAL);
  EXPECT_EQ(destroy_cq(c), EINVAL);
  EXPECT_EQ(qp(p, c).qp_handle, 0u);
  EXPECT_EQ(status, EINVAL);
  EXPECT_EQ(state->contexts[2].object_count, 0u) << "a failed command leaves nothing";
}

TEST_F(UverbsObjects, qp_numbers_carry_the_slot_and_are_not_reused_at_once) {
  const uint32_t p = pd(), c = cq();
  std::set<uint32_t> seen;
  for (int i = 0; i < 3000; ++i) {
    const auto q = qp(p, c);
    ASSERT_EQ(q.qpn >> 14, 1u);
    EXPECT_TRUE(seen.insert(q.qpn).second) << q.qpn;
    ASSERT_EQ(destroy_qp(q.qp_handle), 0);
  }
}

TEST_F(UverbsObjects, a_context_has_so_many_qps_and_no_more) {
  const uint32_t p = pd(), c = cq();
  std::set<uint32_t> numbers;
  for (uint32_t i = 0; i < UROCE_MAX_QP_PER_CONTEXT; ++i) {
    const auto q = qp(p, c);
    ASSERT_EQ(status, 0) << i;
    numbers.insert(q.qpn);
  }
  EXPECT_EQ(numbers.size(), static_cast<size_t>(UROCE_MAX_QP_PER_CONTEXT));
  EXPECT_EQ(*numbers.rbegin() & 0x3fff, static_cast<uint32_t>(UROCE_MAX_QP_PER_CONTEXT - 1));
  qp(p, c);
  EXPECT_EQ(status, ENOMEM);
}

TEST_F(UverbsObjects, as_many_domains_as_announced_and_no_more) {
  ib_uverbs_query_device_resp device{};
  ASSERT_EQ(run(IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_query_device{}, &device), 0);
  uint32_t last = 0;
  for (uint32_t i = 0; i < device.max_pd; ++i) ASSERT_NE(last = pd(), 0u) << i;
  EXPECT_EQ(pd(), 0u);
  EXPECT_EQ(status, ENOMEM);
  EXPECT_EQ(dealloc_pd(last), 0);
  EXPECT_NE(pd(), 0u);
}

TEST_F(UverbsObjects, limits_are_those_announced) {
  const uint32_t p = pd();
  for (const uint32_t entries : {0u, UROCE_MAX_CQE + 1u}) {
    ib_uverbs_create_cq request{};
    request.cqe = entries;
    ib_uverbs_create_cq_resp response{};
    EXPECT_EQ(run(IB_USER_VERBS_CMD_CREATE_CQ, request, &response), EINVAL) << entries;
  }
  const uint32_t c = cq();
  ib_uverbs_create_qp request{};
  request.pd_handle = p;
  request.send_cq_handle = request.recv_cq_handle = c;
  request.qp_type = kRc;
  ib_uverbs_create_qp_resp response{};
  for (auto member : {&ib_uverbs_create_qp::max_send_wr, &ib_uverbs_create_qp::max_recv_wr,
                      &ib_uverbs_create_qp::max_send_sge, &ib_uverbs_create_qp::max_recv_sge,
                      &ib_uverbs_create_qp::max_inline_data}) {
    auto too_much = request;
    too_much.*member = 1u << 20;
    EXPECT_EQ(run(IB_USER_VERBS_CMD_CREATE_QP, too_much, &response), EINVAL);
  }
  request.qp_type = 8;  // raw packet
  EXPECT_EQ(run(IB_USER_VERBS_CMD_CREATE_QP, request, &response), EOPNOTSUPP);
}

TEST_F(UverbsObjects, reset_keeps_only_what_the_qp_was_made_with) {
  const auto q = qp(pd(), cq());
  ib_uverbs_modify_qp change{};
  change.qp_handle = q.qp_handle;
  change.attr_mask = 1 | 1u << 20 | 1u << 12;  // state, destination number, PSN
  change.qp_state = 2;
  change.dest_qp_num = 0x123456;
  change.rq_psn = 0xabcdef;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_MODIFY_QP, change), 0);
  ib_uverbs_query_qp query{};
  query.qp_handle = q.qp_handle;
  ib_uverbs_query_qp_resp now{};
  EXPECT_EQ(run(IB_USER_VERBS_CMD_QUERY_QP, query, &now), 0);
  EXPECT_EQ(now.qp_state, 2);
  EXPECT_EQ(now.dest_qp_num, 0x123456u);
  EXPECT_EQ(now.rq_psn, 0xabcdefu);
  change.attr_mask = 1;
  change.qp_state = 0;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_MODIFY_QP, change), 0);
  EXPECT_EQ(run(IB_USER_VERBS_CMD_QUERY_QP, query, &now), 0);
  EXPECT_EQ(now.qp_state, 0);
  EXPECT_EQ(now.dest_qp_num, 0u);
  EXPECT_EQ(now.max_send_wr, 1u);
}

TEST_F(UverbsObjects, attributes_out_of_range_change_nothing) {
  const auto q = qp(pd(), cq());
  struct Case {
    uint32_t mask;
    std::function<void(ib_uverbs_modify_qp&)> set;
  };
  const Case cases[] = {
      {1u, [](auto& m) { m.qp_state = 7; }},
      {1u << 4, [](auto& m) { m.pkey_index = 1; }},
      {1u << 5, [](auto& m) { m.port_num = 2; }},
      {1u << 7, [](auto& m) { m.dest.is_global = 0; }},
      {1u << 8, [](auto& m) { m.path_mtu = 6; }},
      {1u << 9, [](auto& m) { m.timeout = 32; }},
      {1u << 10, [](auto& m) { m.retry_cnt = 8; }},
      {1u << 11, [](auto& m) { m.rnr_retry = 8; }},
      {1u << 12, [](auto& m) { m.rq_psn = 1u << 24; }},
      {1u << 13, [](auto& m) { m.max_rd_atomic = 255; }},
      {1u << 20, [](auto& m) { m.dest_qp_num = 1u << 24; }},
  };
  for (const Case& one : cases) {
    ib_uverbs_modify_qp change{};
    change.qp_handle = q.qp_handle;
    change.attr_mask = one.mask;
    one.set(change);
    EXPECT_EQ(run(IB_USER_VERBS_CMD_MODIFY_QP, change), EINVAL) << one.mask;
  }
  ib_uverbs_modify_qp change{};
  change.qp_handle = q.qp_handle;
  change.attr_mask = 1u << 14;  // alternate path
  EXPECT_EQ(run(IB_USER_VERBS_CMD_MODIFY_QP, change), EOPNOTSUPP);
}

TEST_F(UverbsObjects, memory_regions_have_fresh_keys_and_the_kernels_rules) {
  const uint32_t p = pd();
  ib_uverbs_reg_mr request{};
  request.pd_handle = p;
  request.start = request.hca_va = 0x1000;
  request.length = 100;
  request.access_flags = IB_UVERBS_ACCESS_LOCAL_WRITE;
  ib_uverbs_reg_mr_resp mr{};
  ASSERT_EQ(run(IB_USER_VERBS_CMD_REG_MR, request, &mr), 0);
  EXPECT_EQ(mr.lkey, mr.rkey);
  EXPECT_EQ(dealloc_pd(p), EBUSY);

  ib_uverbs_rereg_mr change{};
  change.mr_handle = mr.mr_handle;
  change.flags = 4;
  change.access_flags = IB_UVERBS_ACCESS_REMOTE_READ;
  ib_uverbs_rereg_mr_resp changed{};
  ASSERT_EQ(run(IB_USER_VERBS_CMD_REREG_MR, change, &changed), 0);
  EXPECT_EQ(changed.lkey, mr.lkey);
  EXPECT_EQ(changed.rkey, mr.rkey);

  auto wrong = request;
  wrong.hca_va = 0x1001;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_REG_MR, wrong, &mr), EINVAL) << "another offset in the page";
  wrong = request;
  wrong.access_flags = IB_UVERBS_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_REG_MR, wrong, &mr), EINVAL) << "remote write without local write";
}

TEST_F(UverbsObjects, multicast_attachments_hold_the_qp_until_detached) {
  const auto q = qp(pd(), cq(), kUd);
  ib_uverbs_attach_mcast join{};
  join.qp_handle = q.qp_handle;
  join.gid[0] = 0xff;
  join.gid[1] = 0x0e;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_ATTACH_MCAST, join), 0);
  EXPECT_EQ(run(IB_USER_VERBS_CMD_ATTACH_MCAST, join), 0) << "twice is once";
  EXPECT_EQ(destroy_qp(q.qp_handle), EBUSY);
  ib_uverbs_detach_mcast leave{};
  std::memcpy(leave.gid, join.gid, sizeof leave.gid);
  leave.qp_handle = q.qp_handle;
  EXPECT_EQ(run(IB_USER_VERBS_CMD_DETACH_MCAST, leave), 0);
  EXPECT_EQ(run(IB_USER_VERBS_CMD_DETACH_MCAST, leave), EINVAL);
  EXPECT_EQ(destroy_qp(q.qp_handle), 0);
}

class XrcTarget : public UverbsObjects {
 protected:
  uint32_t domain() {
    ib_uverbs_open_xrcd request{};
    request.fd = ~0u;
    ib_uverbs_open_xrcd_resp response{};
    run(IB_USER_VERBS_CMD_OPEN_XRCD, request, &response);
    return response.xrcd_handle;
  }
  uint32_t open_again(uint32_t xrcd, uint32_t qpn) {
    ib_uverbs_open_qp request{};
    request.pd_handle = xrcd;
    request.qpn = qpn;
    request.qp_type = kXrcTarget;
    ib_uverbs_create_qp_resp response{};
    run(IB_USER_VERBS_CMD_OPEN_QP, request, &response);
    return response.qp_handle;
  }
};

TEST_F(XrcTarget, lives_until_its_last_handle_goes) {
  const uint32_t xrcd = domain();
  const auto target = qp(xrcd, 0, kXrcTarget);
  ASSERT_EQ(status, 0);
  const uint32_t second = open_again(xrcd, target.qpn), third = open_again(xrcd, target.qpn);
  ASSERT_NE(second, 0u);
  ASSERT_NE(third, 0u);
  const auto in_use = [&] {
    const uint32_t index = target.qpn & 0x3fff;
    return (state->contexts[1].qp_indices[index / 64] >> (index % 64) & 1) != 0;
  };
  EXPECT_EQ(destroy_qp(target.qp_handle), 0);
  EXPECT_TRUE(in_use());
  EXPECT_EQ(destroy_qp(third), 0);
  EXPECT_TRUE(in_use());
  EXPECT_EQ(run(IB_USER_VERBS_CMD_CLOSE_XRCD, ib_uverbs_close_xrcd{.xrcd_handle = xrcd}), EBUSY);
  EXPECT_EQ(destroy_qp(second), 0);
  EXPECT_FALSE(in_use());
  EXPECT_EQ(run(IB_USER_VERBS_CMD_CLOSE_XRCD, ib_uverbs_close_xrcd{.xrcd_handle = xrcd}), 0);
  EXPECT_EQ(state->contexts[1].object_count, 0u);
}

TEST_F(XrcTarget, a_hand_over_that_changes_too_much_is_undone_whole) {
  const uint32_t xrcd = domain();
  const auto target = qp(xrcd, 0, kXrcTarget);
  for (int i = 0; i < 5000; ++i) ASSERT_NE(open_again(xrcd, target.qpn), 0u);
  const ObjectRecord before = registry.object(target.qp_handle);
  EXPECT_THROW(destroy_qp(target.qp_handle), std::bad_alloc);
  registry.roll_back();
  EXPECT_EQ(std::memcmp(&before, &registry.object(target.qp_handle), sizeof before), 0);
  registry.for_each_object(1, [&](uint32_t index, const ObjectRecord& object) {
    if (object.kind != ObjectKind::qp || index == target.qp_handle) return;
    EXPECT_EQ(object.qp.opened_of, target.qp_handle);
  });
}

TEST_F(UverbsObjects, after_the_devices_end_only_taking_apart_works) {
  const uint32_t p = pd(), c = cq();
  const auto q = qp(p, c);
  registry.edit(state->contexts[1].fatal) = 1;
  EXPECT_EQ(pd(), 0u);
  EXPECT_EQ(status, EIO);
  ib_uverbs_query_device_resp response{};
  EXPECT_EQ(run(IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_query_device{}, &response), EIO);
  EXPECT_EQ(destroy_qp(q.qp_handle), 0);
  EXPECT_EQ(destroy_cq(c), 0);
  EXPECT_EQ(dealloc_pd(p), 0);
}

TEST_F(UverbsObjects, random_commands_keep_the_books) {
  unsigned seed = 20261201;
  for (int i = 0; i < 200'000; ++i) {
    const auto shapes = uverbs_shapes();
    const CommandShape& shape = shapes[static_cast<size_t>(rand_r(&seed)) % shapes.size()];
    if (shape.number == IB_USER_VERBS_CMD_GET_CONTEXT) continue;
    std::vector<std::byte> written(sizeof(ib_uverbs_cmd_hdr) + (shape.request_bytes + 7) / 8 * 8 + 16);
    // Small numbers, so that handles are often right.
    for (auto& b : written) b = static_cast<std::byte>(rand_r(&seed) % 4 == 0 ? rand_r(&seed) % 12 : 0);
    ib_uverbs_cmd_hdr header{shape.number, 0, 0};
    if (shape.extended) {
      header.command |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
      written.resize(sizeof header + sizeof(ib_uverbs_ex_cmd_hdr) + (shape.request_bytes + 7) / 8 * 8);
      header.in_words = static_cast<uint16_t>((shape.request_bytes + 7) / 8);
      header.out_words = static_cast<uint16_t>((shape.response_bytes + 7) / 8);
      const ib_uverbs_ex_cmd_hdr extended{1, 0, 0, 0};
      std::memcpy(written.data() + sizeof header, &extended, sizeof extended);
    } else {
      written.resize(sizeof header + (shape.request_bytes + 3) / 4 * 4);
      header.in_words = static_cast<uint16_t>(written.size() / 4);
      header.out_words = static_cast<uint16_t>((shape.response_bytes + 3) / 4 + 2);
    }
    std::memcpy(written.data(), &header, sizeof header);
    carry_out(written);
  }
  // Every count of users is right, and taking all apart leaves nothing.
  uint32_t objects = 0, users = 0;
  registry.for_each_object(1, [&](uint32_t, const ObjectRecord& object) {
    objects++;
    users += object.users;
    EXPECT_LT(object.users, 1u << 20);
  });
  EXPECT_GT(objects, 10u) << "the commands were all wrong: no test";
  EXPECT_GT(users, 0u);
  EXPECT_EQ(objects, state->contexts[1].object_count);
  while (state->contexts[1].first_object != 0) release_object(registry, state->contexts[1].first_object);
  EXPECT_EQ(state->contexts[1].object_count, 0u);
  for (const uint32_t count : state->contexts[1].kind_counts) EXPECT_EQ(count, 0u);
  for (const uint64_t word : state->contexts[1].qp_indices) EXPECT_EQ(word, 0u);
  for (uint32_t i = 1; i <= state->objects_used; ++i) {
    EXPECT_EQ(state->objects[i].kind, ObjectKind::free);
    EXPECT_EQ(state->objects[i].users, 0u) << i;
  }
}

}  // namespace
}  // namespace uroce::daemon
