// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "tests/preload/device.h"
#include "tests/preload/fake_daemon.h"
#include "tests/preload/program.h"

namespace uroce::preload_test {
namespace {

class Commands : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(device_.is_open()); }

  FakeDaemon daemon_;
  Device device_;
};

TEST_F(Commands, write__carries_the_bytes_and_stores_the_answer) {
  ib_uverbs_query_port_resp response;
  std::memset(&response, 0xee, sizeof response);
  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_query_port request;
  } command{{IB_USER_VERBS_CMD_QUERY_PORT, sizeof command / 4, sizeof response / 4}, {}};
  command.request.response = reinterpret_cast<uintptr_t>(&response);
  command.request.port_num = 1;
  ASSERT_EQ(write(device_.fd(), &command, sizeof command), static_cast<ssize_t>(sizeof command));
  const auto last = daemon_.commands().back();
  ASSERT_EQ(last.size(), sizeof command);
  EXPECT_EQ(std::memcmp(last.data(), &command, sizeof command), 0);
  EXPECT_EQ(response.port_cap_flags, 0u);
}

TEST_F(Commands, write__the_answer_stays_within_what_was_asked_for) {
  uint32_t response[2] = {0, 0xeeeeeeee};
  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_alloc_pd request;
  } command{{IB_USER_VERBS_CMD_ALLOC_PD, sizeof command / 4, 1}, {reinterpret_cast<uintptr_t>(response)}};
  ASSERT_EQ(write(device_.fd(), &command, sizeof command), static_cast<ssize_t>(sizeof command));
  EXPECT_EQ(response[1], 0xeeeeeeee);
}

TEST_F(Commands, writev__is_one_command) {
  ib_uverbs_alloc_pd_resp response{};
  ib_uverbs_cmd_hdr header{IB_USER_VERBS_CMD_ALLOC_PD, 4, 1};
  ib_uverbs_alloc_pd request{reinterpret_cast<uintptr_t>(&response)};
  const iovec parts[] = {{&header, sizeof header}, {&request, sizeof request}};
  EXPECT_EQ(writev(device_.fd(), parts, 2), 16);
}

TEST_F(Commands, write__too_short_is_EINVAL) {
  EXPECT_EQ(write(device_.fd(), "abc", 3), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Commands, write__the_errno_is_uroceds) {
  daemon_.fail_next_command(EBUSY);
  EXPECT_EQ(device_.any_command(), EBUSY);
  EXPECT_EQ(device_.any_command(), 0);
}

TEST_F(Commands, get_context__the_async_descriptor_is_an_ordinary_number) {
  EXPECT_LT(device_.async(), 100) << "not one of those that the stand-in keeps";
  EXPECT_EQ(fcntl(device_.async(), F_GETFD), FD_CLOEXEC);
}

// ibv_import_device demands it, directly, whatever other ioctls have answered.
TEST_F(Commands, ioctl__an_async_descriptor_for_an_imported_context) {
  alignas(8) char bytes[sizeof(ib_uverbs_ioctl_hdr) + sizeof(ib_uverbs_attr)] = {};
  auto* header = reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes);
  auto* attribute = reinterpret_cast<ib_uverbs_attr*>(bytes + sizeof *header);
  header->length = sizeof bytes;
  header->num_attrs = 1;
  attribute->attr_id = UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE;
  EXPECT_EQ(ioctl(device_.fd(), RDMA_VERBS_IOCTL, header), -1)
      << "object DEVICE, method INVOKE_WRITE: libibverbs' probe";
  EXPECT_EQ(errno, ENOTTY);
  header->object_id = UVERBS_OBJECT_ASYNC_EVENT;
  header->method_id = UVERBS_METHOD_ASYNC_EVENT_ALLOC;
  ASSERT_EQ(ioctl(device_.fd(), RDMA_VERBS_IOCTL, header), 0);
  const int fd = static_cast<int>(attribute->data_s64);
  EXPECT_NE(fd, device_.async());
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_TRUE(read_asyncs(fd).empty());
  close(fd);
}

TEST_F(Commands, restart__the_request_is_sent_again_and_the_second_answer_ignored) {
  daemon_.restart_in_next_command();
  ASSERT_EQ(device_.any_command(), 0);
  ASSERT_EQ(device_.any_command(), 0);
  const auto all = daemon_.commands();
  EXPECT_EQ(all.size(), 4u) << "GET_CONTEXT, the command twice, the next one";
  daemon_.fail_next_command(ENOSPC);
  EXPECT_EQ(device_.any_command(), ENOSPC) << "answers still belong to their requests";
}

TEST_F(Commands, gone__EIO_for_ever_after) {
  daemon_.leave_in_next_command();
  EXPECT_EQ(device_.any_command(), EIO);
  EXPECT_EQ(device_.any_command(), EIO);
  EXPECT_EQ(device_.create_channel(), -1);
  EXPECT_EQ(errno, EIO);
}

TEST(CommandsAlone, daemon_dies__EIO_and_no_SIGPIPE) {
  std::optional<FakeDaemon> daemon(std::in_place);
  const Device device;
  ASSERT_TRUE(device.is_open());
  daemon.reset();
  EXPECT_EQ(device.any_command(), EIO);
  EXPECT_EQ(device.any_command(), EIO);
}

int get_context(int fd) {
  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_get_context request;
  } command{{IB_USER_VERBS_CMD_GET_CONTEXT, sizeof command / 4, 6}, {}};
  uint64_t response[3] = {};
  command.request.response = reinterpret_cast<uintptr_t>(response);
  return write(fd, &command, sizeof command) == static_cast<ssize_t>(sizeof command) ? 0 : errno;
}

TEST(CommandsAlone, get_context__the_reason_of_a_refusal_is_told_and_the_errno_is_uroceds) {
  FakeDaemon daemon;
  daemon.fail_next_command(ENOMEM, "all contexts are in use");
  testing::internal::CaptureStderr();
  EXPECT_EQ(in_child([] { return get_context(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC)); }),
            ENOMEM);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: all contexts are in use\n");
}

TEST(CommandsAlone, get_context__without_room_for_the_async_descriptor_is_EMFILE) {
  const FakeDaemon daemon;
  EXPECT_EQ(in_child([] {
              const int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
              const int free_number = dup(0);
              close(free_number);
              const rlimit none{static_cast<rlim_t>(free_number), static_cast<rlim_t>(free_number)};
              if (fd < 0 || setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              return get_context(fd);
            }),
            EMFILE);
}

volatile sig_atomic_t alarms;

TEST_F(Commands, signals__wait_until_the_command_is_done) {
  struct sigaction action {};
  action.sa_handler = [](int) { alarms = alarms + 1; };
  sigaction(SIGUSR1, &action, nullptr);
  daemon_.hold_next_command();
  int error = -1;
  std::thread caller([&] { error = device_.any_command(); });
  while (!daemon_.holding()) std::this_thread::yield();
  pthread_kill(caller.native_handle(), SIGUSR1);
  daemon_.release_command();
  caller.join();
  EXPECT_EQ(error, 0);
  EXPECT_EQ(alarms, 1);
}

TEST_F(Commands, nonblock__makes_no_difference) {
  ASSERT_EQ(fcntl(device_.fd(), F_SETFL, O_NONBLOCK), 0);
  daemon_.hold_next_command();
  std::thread releaser([&] {
    while (!daemon_.holding()) std::this_thread::yield();
    daemon_.release_command();
  });
  EXPECT_EQ(device_.any_command(), 0);
  releaser.join();
}

TEST_F(Commands, threads__each_gets_its_own_answer) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto qp = device_.create_qp(static_cast<uint64_t>(t) << 32 | static_cast<uint64_t>(i));
        if (!qp || qp->number != qp->handle + 1000 || device_.destroy_qp(*qp) != 0u) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Commands, refusal__the_errno_of_open_is_uroceds) {
  daemon_.refuse(UROCE_ROLE_UVERBS, EPERM, "this daemon is another user's");
  testing::internal::CaptureStderr();
  const pid_t child = fork();
  if (child == 0) {
    open("/dev/infiniband/uverbs0", O_RDWR);
    errno = 0;
    open("/dev/infiniband/uverbs0", O_RDWR);
    _exit(errno);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), EPERM);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: this daemon is another user's\n") << "once";
}

}  // namespace
}  // namespace uroce::preload_test
