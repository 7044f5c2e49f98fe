// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The descriptor of /dev/infiniband/rdma_cm and the commands on it. Events: rdma_cm_event_test.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "tests/preload/cm_channel.h"
#include "tests/preload/fake_daemon.h"
#include "tests/preload/program.h"

namespace uroce::preload_test {
namespace {

class RdmaCm : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(channel_.is_open()); }

  std::vector<uint8_t> last_command() const { return daemon_.commands().back(); }

  FakeDaemon daemon_;
  CmChannel channel_;
};

// In a child: the daemon's thread takes numbers of this process too.
TEST_F(RdmaCm, open__gives_the_lowest_number) {
  EXPECT_TRUE(child_says([] {
    const int lowest = dup(0);
    close(lowest);
    return CmChannel().fd() == lowest;
  }));
}

// There is a number for the connection, and none for what comes with uroced's answer.
TEST_F(RdmaCm, open__with_a_full_table_is_EMFILE) {
  EXPECT_TRUE(child_says([] {
    const int lowest = dup(0);
    close(lowest);
    const rlimit one_more{static_cast<rlim_t>(lowest) + 1, static_cast<rlim_t>(lowest) + 1};
    if (setrlimit(RLIMIT_NOFILE, &one_more) != 0) return false;
    if (open("/dev/infiniband/rdma_cm", O_RDWR) != -1 || errno != EMFILE) return false;
    return dup(0) == lowest;
  }));
}

TEST_F(RdmaCm, open__with_the_flags_asked_for) {
  const CmChannel quick(O_NONBLOCK);
  EXPECT_EQ(fcntl(quick.fd(), F_GETFD), FD_CLOEXEC);
  EXPECT_NE(fcntl(quick.fd(), F_GETFL) & O_NONBLOCK, 0);
  const int inherited = open("/dev/infiniband/rdma_cm", O_RDWR);
  EXPECT_EQ(fcntl(inherited, F_GETFD), 0);
  EXPECT_EQ(fcntl(inherited, F_GETFL) & O_NONBLOCK, 0);
  close(inherited);
  EXPECT_EQ(open("/dev/infiniband/rdma_cm", O_RDONLY | O_DIRECTORY), -1);
  EXPECT_EQ(errno, ENOTDIR);
}

TEST_F(RdmaCm, fstat__is_the_character_device) {
  for (const int fd : {channel_.fd(), dup(channel_.fd())}) {
    struct stat st;
    ASSERT_EQ(fstat(fd, &st), 0);
    EXPECT_TRUE(S_ISCHR(st.st_mode));
    EXPECT_EQ(st.st_rdev, makedev(10, 58));
    if (fd != channel_.fd()) close(fd);
  }
}

TEST_F(RdmaCm, read__is_EINVAL) {
  const auto id = channel_.create_id();
  daemon_.rdma_cm().queue_event(*id, 7);
  char byte;
  EXPECT_EQ(read(channel_.fd(), &byte, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(channel_.get_event()->uid, 7u) << "nothing was taken";
}

TEST_F(RdmaCm, write__carries_the_bytes_and_stores_the_answer) {
  rdma_ucm_query_route_resp response{};
  rdma_ucm_query request{reinterpret_cast<uintptr_t>(&response), 5, 0};
  ASSERT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_QUERY_ROUTE, request, sizeof response), 0);
  const auto seen = last_command();
  const CmCommand<rdma_ucm_query> expected{{RDMA_USER_CM_CMD_QUERY_ROUTE, sizeof request, sizeof response},
                                           request};
  ASSERT_EQ(seen.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(seen.data(), &expected, sizeof expected), 0);
  EXPECT_EQ(response.num_paths, 0xababababu);
}

TEST_F(RdmaCm, write__the_answer_stays_within_its_room) {
  uint8_t response[256];
  std::memset(response, 0xee, sizeof response);
  rdma_ucm_query request{reinterpret_cast<uintptr_t>(response), 5, RDMA_USER_CM_QUERY_PATH};
  ASSERT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_QUERY, request, 8), 0);
  EXPECT_EQ(response[7], 0xab);
  EXPECT_EQ(response[8], 0xee);
}

TEST_F(RdmaCm, writev__is_one_command) {
  rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_LISTEN, sizeof(rdma_ucm_listen), 0};
  rdma_ucm_listen request{1, 1};
  const iovec parts[] = {{&header, sizeof header}, {&request, sizeof request}};
  EXPECT_EQ(writev(channel_.fd(), parts, 2), 16);
  EXPECT_EQ(last_command().size(), 16u);
}

TEST_F(RdmaCm, write__what_the_kernel_refuses) {
  const size_t before = daemon_.commands().size();
  uint32_t answer = 0;
  const uint64_t address = reinterpret_cast<uintptr_t>(&answer);
  EXPECT_EQ(write(channel_.fd(), "abc", 3), -1);
  EXPECT_EQ(errno, EINVAL);
  const rdma_ucm_cmd_hdr too_long{RDMA_USER_CM_CMD_LISTEN, 1, 0};
  EXPECT_EQ(write(channel_.fd(), &too_long, sizeof too_long), -1);
  EXPECT_EQ(errno, EINVAL) << "its header promises more than there is";
  EXPECT_EQ(cm_write(channel_.fd(), 99, rdma_ucm_listen{}, 0), EINVAL);
  EXPECT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_GET_OPTION, rdma_ucm_listen{}, 0), ENOSYS);
  EXPECT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{address, 1, 0}, 3),
            ENOSPC);
  EXPECT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_DESTROY_ID, uint32_t{1}, 4), EINVAL);
  EXPECT_EQ(cm_write(channel_.fd(), RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{0, 1, 0}, 4), EFAULT);
  EXPECT_EQ(daemon_.commands().size(), before) << "uroced was not asked";
}

TEST_F(RdmaCm, write__the_errno_is_uroceds) {
  EXPECT_FALSE(channel_.destroy_id(4711));
  EXPECT_EQ(errno, ENOENT);
  daemon_.fail_next_command(EADDRINUSE);
  EXPECT_EQ(channel_.listen(1), EADDRINUSE);
  EXPECT_EQ(channel_.listen(1), 0);
}

TEST_F(RdmaCm, restart__the_request_is_sent_again) {
  daemon_.restart_in_next_command();
  ASSERT_EQ(channel_.listen(1), 0);
  ASSERT_EQ(channel_.listen(2), 0);
  EXPECT_EQ(daemon_.commands().size(), 3u) << "the first one twice";
  daemon_.fail_next_command(ENOSPC);
  EXPECT_EQ(channel_.listen(1), ENOSPC) << "answers still belong to their requests";
}

TEST_F(RdmaCm, gone__EIO_for_ever_after) {
  daemon_.leave_in_next_command();
  EXPECT_EQ(channel_.listen(1), EIO);
  EXPECT_EQ(channel_.listen(1), EIO);
  EXPECT_FALSE(channel_.get_event());
  EXPECT_EQ(errno, EIO) << "no event will come";
}

TEST_F(RdmaCm, set_option__carries_the_bytes) {
  std::vector<uint8_t> value(UROCE_CM_OPTION_MAX);
  std::iota(value.begin(), value.end(), static_cast<uint8_t>(1));
  for (const uint32_t length : {1u, 4u, 72u, static_cast<uint32_t>(UROCE_CM_OPTION_MAX)}) {
    ASSERT_EQ(channel_.set_option(3, value.data(), length), 0);
    const auto seen = last_command();
    const size_t head = sizeof(CmCommand<rdma_ucm_set_option>);
    ASSERT_EQ(seen.size(), head + length);
    EXPECT_EQ(std::memcmp(seen.data() + head, value.data(), length), 0);
  }
}

TEST_F(RdmaCm, set_option__what_cannot_be_read_or_is_too_long) {
  const size_t before = daemon_.commands().size();
  EXPECT_EQ(channel_.set_option(3, nullptr, 4), EFAULT);
  void* closed = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(static_cast<char*>(closed) + 4096, 4096, PROT_NONE);
  EXPECT_EQ(channel_.set_option(3, static_cast<char*>(closed) + 4092, 8), EFAULT);
  munmap(closed, 8192);
  EXPECT_EQ(channel_.set_option(3, closed, UROCE_CM_OPTION_MAX + 1), EINVAL);
  EXPECT_EQ(channel_.listen(1), 0) << "nothing is left behind";
  EXPECT_EQ(daemon_.commands().size(), before + 1);
}

TEST_F(RdmaCm, migrate__says_which_channel_the_number_is) {
  const auto id = channel_.create_id();
  CmChannel other;
  ASSERT_TRUE(other.is_open());
  EXPECT_EQ(other.migrate_from(channel_.fd(), *id), 0u);
  EXPECT_EQ(other.destroy_id(*id), 0u);
  EXPECT_FALSE(channel_.destroy_id(*id));
}

TEST_F(RdmaCm, migrate__to_where_it_is) {
  const auto id = channel_.create_id();
  EXPECT_EQ(channel_.migrate_from(channel_.fd(), *id), 0u);
  const int copy = dup(channel_.fd());
  EXPECT_EQ(channel_.migrate_from(copy, *id), 0u);
  close(copy);
}

TEST_F(RdmaCm, migrate__from_what_is_no_channel) {
  const auto id = channel_.create_id();
  const size_t before = daemon_.commands().size();
  EXPECT_FALSE(channel_.migrate_from(4711, *id));
  EXPECT_EQ(errno, ENOENT);
  const int file = open("/dev/null", O_WRONLY);
  EXPECT_FALSE(channel_.migrate_from(file, *id));
  EXPECT_EQ(errno, EINVAL);
  const int device = open("/dev/infiniband/uverbs0", O_RDWR);
  EXPECT_FALSE(channel_.migrate_from(device, *id));
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(daemon_.commands().size(), before);
  close(file);
  close(device);
}

// Each of two threads wants both channels, and a third has one of them until both wait.
TEST_F(RdmaCm, migrate__in_both_directions_at_once) {
  CmChannel other;
  const uint32_t ids[] = {*channel_.create_id(), *other.create_id()};
  CmChannel* ends[] = {&channel_, &other};
  for (size_t first : {0u, 1u, 0u, 1u}) {
    for (CmChannel* busy : ends) {
      daemon_.hold_next_command();
      std::thread holder([&] { busy->listen(1); });
      while (!daemon_.holding()) std::this_thread::yield();
      std::vector<std::thread> movers;
      std::atomic<int> moved{0};
      for (const size_t from : {first, 1 - first}) {
        std::atomic<pid_t> task{0};
        movers.emplace_back([&, from] {
          task = gettid();
          if (ends[1 - from]->migrate_from(ends[from]->fd(), ids[from])) ++moved;
        });
        while (task == 0 || !is_in_call(task, SYS_futex)) std::this_thread::yield();
      }
      daemon_.release_command();
      holder.join();
      for (std::thread& mover : movers) mover.join();
      EXPECT_EQ(moved, 2);
      for (const size_t from : {0u, 1u})
        EXPECT_TRUE(ends[from]->migrate_from(ends[1 - from]->fd(), ids[from]));
    }
  }
}

TEST_F(RdmaCm, fork__the_child_is_refused_and_can_open_its_own) {
  const auto id = channel_.create_id();
  EXPECT_TRUE(child_says([&] {
    if (channel_.listen(1) != EACCES || channel_.get_event() || errno != EACCES) return false;
    CmChannel own;
    if (!own.create_id() || own.migrate_from(channel_.fd(), *id)) return false;
    return errno == EACCES;
  }));
  EXPECT_EQ(channel_.destroy_id(*id), 0u);
}

TEST_F(RdmaCm, close__ends_it_when_the_last_copy_goes) {
  const auto wait_for_channels = [&](size_t count) {
    while (daemon_.rdma_cm().open_channels() != count) std::this_thread::yield();
  };
  const int copy = dup(channel_.fd());
  close(channel_.fd());
  channel_.use(copy);
  EXPECT_EQ(channel_.listen(1), 0);
  const int file = open("/dev/null", O_WRONLY);
  dup2(file, copy);
  close(file);
  wait_for_channels(0);
  EXPECT_EQ(write(copy, "for a file", 10), 10) << "the number is another file's";
}

TEST_F(RdmaCm, dup2__over_a_channel_leads_to_the_new_one) {
  CmChannel other;
  const auto id = channel_.create_id();
  ASSERT_EQ(dup2(channel_.fd(), other.fd()), other.fd());
  EXPECT_EQ(other.destroy_id(*id), 0u);
}

TEST_F(RdmaCm, number__that_is_used_again_is_not_ours) {
  const int number = channel_.fd();
  syscall(SYS_close, number);
  channel_.use(-1);
  expect_file_takes_writes(number, make_file_at(number));
}

TEST_F(RdmaCm, kept_connection__goes_with_the_channel) {
  for (int i = 0; i < 3000; ++i) {
    const int fd = open("/dev/infiniband/rdma_cm", O_RDWR);
    ASSERT_GE(fd, 0) << "at " << i << ": " << std::strerror(errno);
    syscall(SYS_close, fd);
  }
  EXPECT_EQ(channel_.listen(1), 0);
}

TEST_F(RdmaCm, kept_connection__that_the_program_has_closed_is_EIO) {
  for (int fd = 100; fd < 16500; ++fd) syscall(SYS_close, fd);
  EXPECT_EQ(channel_.listen(1), EIO);
}

TEST_F(RdmaCm, refusal__the_errno_of_open_is_uroceds) {
  daemon_.refuse(UROCE_ROLE_RDMA_CM, EPERM, "this daemon is another user's");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(child_says([] { return open("/dev/infiniband/rdma_cm", O_RDWR) == -1 && errno == EPERM; }));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: this daemon is another user's\n");
}

TEST_F(RdmaCm, refusal__who_has_no_descriptor_left_is_told) {
  daemon_.refuse(UROCE_ROLE_RDMA_CM, EMFILE, "the keeper process has no descriptor left");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(child_says([] { return open("/dev/infiniband/rdma_cm", O_RDWR) == -1 && errno == EMFILE; }));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: the keeper process has no descriptor left\n");
}

TEST(RdmaCmAlone, daemon_dies__EIO_and_no_SIGPIPE) {
  std::optional<FakeDaemon> daemon(std::in_place);
  CmChannel channel;
  ASSERT_TRUE(channel.is_open());
  daemon.reset();
  EXPECT_EQ(channel.listen(1), EIO);
  EXPECT_EQ(channel.listen(1), EIO);
}

TEST(RdmaCmAlone, open__without_uroced) {
  EXPECT_TRUE(child_says([] { return open("/dev/infiniband/rdma_cm", O_RDWR) == -1 && errno == ENOENT; }));
}

}  // namespace
}  // namespace uroce::preload_test
