// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// fork(): the child has its parent's memory and none of its queues. Imports within one process.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/verbs/conformance/pair.h"

namespace conformance {
namespace {

class Fork : public Pair {
 protected:
  // Runs in a child; true when it returned true there.
  static bool in_child(const std::function<bool()>& what) {
    const pid_t child = fork();
    if (child == 0) _exit(what() ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

TEST_F(Fork, every_verb_on_the_parents_objects_is_an_error) {
  EXPECT_TRUE(in_child([&] {
    ibv_sge list = sge(0, 8);
    ibv_wc wc;
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    attributes.qp_state = IBV_QPS_ERR;
    return post(left.get(), send_wr(IBV_WR_SEND, &list)) != 0 && post_recv(left.get(), list) != 0 &&
           ibv_poll_cq(queue.get(), 1, &wc) < 0 && ibv_req_notify_cq(queue.get(), 0) != 0 &&
           ibv_modify_qp(left.get(), &attributes, IBV_QP_STATE) != 0 &&
           ibv_query_qp(left.get(), &attributes, IBV_QP_STATE, &init) != 0 &&
           ibv_alloc_pd(context) == nullptr &&
           ibv_reg_mr(pd.get(), buffer.data(), 64, IBV_ACCESS_LOCAL_WRITE) == nullptr &&
           ibv_create_cq(context, 4, nullptr, nullptr, 0) == nullptr && ibv_destroy_qp(left.get()) != 0 &&
           ibv_dereg_mr(mr.get()) != 0 && ibv_dealloc_pd(pd.get()) != 0;
  }));
}

// Nothing is pinned, so there is nothing to keep from the child (ibv_is_fork_initialized(3)).
TEST_F(Fork, protection_is_not_needed) {
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
  std::vector<char> half_a_page(2048, 'p');
  const Mr registered = region(half_a_page);
  ASSERT_NE(registered, nullptr);
  EXPECT_TRUE(in_child([&] {
    half_a_page[0] = 'c';
    return half_a_page[2047] == 'p';
  }));
  EXPECT_EQ(half_a_page[0], 'p');
}

TEST_F(Fork, the_parent_goes_on) {
  EXPECT_TRUE(in_child([&] {
    ibv_close_device(context);
    return true;
  }));
  ibv_sge list = sge(0, 8);
  ASSERT_EQ(post_recv(right.get(), sge(1000, 64)), 0);
  ASSERT_EQ(post(left.get(), send_wr(IBV_WR_SEND, &list)), 0);
  for (const ibv_wc& wc : await(queue.get(), 2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
}

TEST_F(Fork, a_child_may_open_the_device_itself) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer lets no child of a program with threads start threads";
#endif
  EXPECT_TRUE(in_child([&] {
    ibv_context* const own = ibv_open_device(context->device);
    if (own == nullptr) return false;
    ibv_pd* const domain = ibv_alloc_pd(own);
    if (domain == nullptr) return false;
    ibv_mr* const memory = ibv_reg_mr(domain, buffer.data(), 64, IBV_ACCESS_LOCAL_WRITE);
    return memory != nullptr && ibv_dereg_mr(memory) == 0 && ibv_dealloc_pd(domain) == 0 &&
           ibv_close_device(own) == 0;
  }));
}

class Import : public Pair {};

TEST_F(Import, an_imported_device_shares_objects_and_data_path) {
  ibv_context* const imported = ibv_import_device(dup(context->cmd_fd));
  ASSERT_NE(imported, nullptr) << std::strerror(errno);
  errno = 0;
  EXPECT_EQ(ibv_import_pd(imported, 0xffffff), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_pd* const same_pd = ibv_import_pd(imported, pd->handle);
  ASSERT_NE(same_pd, nullptr);
  ibv_mr* const same_mr = ibv_import_mr(same_pd, mr->handle);
  ASSERT_NE(same_mr, nullptr);
  EXPECT_EQ(same_mr->rkey, mr->rkey);
  EXPECT_EQ(same_mr->length, mr->length);
  {
    Cq its(ibv_create_cq(imported, 8, nullptr, nullptr, 0));
    ASSERT_NE(its, nullptr);
    ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, its.get());
    Qp there(ibv_create_qp(same_pd, &init)), here = qp(IBV_QPT_RC, queue.get());
    ASSERT_NE(there, nullptr);
    connect(there.get(), here.get());
    ASSERT_EQ(post_recv(there.get(), sge(1000, 64)), 0);
    ibv_sge list = sge(0, 8);
    ASSERT_EQ(post(here.get(), send_wr(IBV_WR_SEND, &list)), 0);
    EXPECT_EQ(await(its.get(), 1).front().status, IBV_WC_SUCCESS);
    await(queue.get(), 1);
  }
  ibv_unimport_mr(same_mr);
  ibv_unimport_pd(same_pd);
  EXPECT_EQ(ibv_close_device(imported), 0);
}

TEST_F(Import, events_go_on_after_the_first_context_is_closed) {
  ibv_context* const first = ibv_open_device(context->device);
  ASSERT_NE(first, nullptr);
  ibv_context* const second = ibv_import_device(dup(first->cmd_fd));
  ASSERT_NE(second, nullptr);
  ASSERT_EQ(ibv_close_device(first), 0);
  {
    Pd domain(ibv_alloc_pd(second));
    ASSERT_NE(domain, nullptr);
    Channel channel(ibv_create_comp_channel(second));
    Cq watched(ibv_create_cq(second, 8, nullptr, channel.get(), 0));
    ASSERT_NE(watched, nullptr);
    ASSERT_EQ(ibv_req_notify_cq(watched.get(), 0), 0);
    ibv_qp_init_attr init = init_attributes(IBV_QPT_RC, watched.get());
    Qp flushed(ibv_create_qp(domain.get(), &init));
    bring_up(flushed.get(), left->qp_num, IBV_QPS_INIT);
    ibv_recv_wr wr{}, *bad = nullptr;
    ASSERT_EQ(ibv_post_recv(flushed.get(), &wr, &bad), 0);
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(flushed.get(), &error, IBV_QP_STATE), 0);
    ibv_cq* which = nullptr;
    void* its = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &which, &its), 0);
    EXPECT_EQ(which, watched.get());
    ibv_ack_cq_events(which, 1);
    flushed.reset(), watched.reset(), channel.reset(), domain.reset();
  }
  EXPECT_EQ(ibv_close_device(second), 0);
}

TEST_F(Import, a_descriptor_of_another_kind_is_refused) {
  const int fd = dup(2);
  EXPECT_EQ(ibv_import_device(fd), nullptr);
  close(fd);
}

class Closed : public Device {};

TEST_F(Closed, an_object_may_be_destroyed_after_its_device) {
  ibv_context* const own = ibv_open_device(context->device);
  ASSERT_NE(own, nullptr);
  ibv_cq* const left_over = ibv_create_cq(own, 8, nullptr, nullptr, 0);
  ASSERT_NE(left_over, nullptr);
  ibv_pd* const domain = ibv_alloc_pd(own);
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(ibv_close_device(own), 0);
  EXPECT_EQ(ibv_destroy_cq(left_over), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

}  // namespace
}  // namespace conformance
