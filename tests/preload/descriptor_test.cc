// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A descriptor is ours by its socket, not by its number: whatever happens to numbers, no byte meant for a
// file goes to the device and no command to a file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/preload/device.h"
#include "tests/preload/fake_daemon.h"
#include "tests/preload/program.h"

namespace uroce::preload_test {
namespace {

class Descriptors : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(device_.is_open()); }

  FakeDaemon daemon_;
  Device device_;
};

TEST_F(Descriptors, open__gives_the_lowest_number_and_the_flags_asked_for) {
  const int lowest = dup(0);
  close(lowest);
  const int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(fd, lowest);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  const int inherited = open("/dev/infiniband/uverbs0", O_RDWR | O_NONBLOCK);
  EXPECT_EQ(fcntl(inherited, F_GETFD), 0);
  EXPECT_NE(fcntl(inherited, F_GETFL) & O_NONBLOCK, 0);
  close(fd);
  close(inherited);
  EXPECT_EQ(open("/dev/infiniband/uverbs0", O_RDONLY | O_DIRECTORY), -1);
  EXPECT_EQ(errno, ENOTDIR);
}

TEST_F(Descriptors, fstat__is_a_character_device) {
  struct stat st;
  ASSERT_EQ(fstat(device_.fd(), &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  EXPECT_EQ(st.st_rdev, makedev(231, 192));
  ASSERT_EQ(fstatat(device_.fd(), "", &st, AT_EMPTY_PATH), 0);
  EXPECT_EQ(st.st_rdev, makedev(231, 192));
  struct statx more;
  ASSERT_EQ(statx(device_.fd(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more), 0);
  EXPECT_TRUE(S_ISCHR(more.stx_mode));
  EXPECT_EQ(more.stx_rdev_major, 231u);
}

TEST_F(Descriptors, fstat__of_other_sockets_stays) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  struct stat st;
  ASSERT_EQ(fstat(ends[0], &st), 0);
  EXPECT_TRUE(S_ISSOCK(st.st_mode));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Descriptors, read_and_ioctl__as_of_a_device_without_ioctl) {
  char byte;
  EXPECT_EQ(read(device_.fd(), &byte, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  int argument = 0;
  EXPECT_EQ(ioctl(device_.fd(), FIONREAD, &argument), -1);
  EXPECT_EQ(errno, ENOTTY);
}

TEST_F(Descriptors, close_range__then_a_file_gets_the_number) {
  const int fd = open("/dev/infiniband/uverbs0", O_RDWR);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(syscall(SYS_close_range, fd, fd, 0), 0);
  expect_file_takes_writes(fd, make_file_at(fd));
}

TEST_F(Descriptors, fclose__then_a_file_gets_the_number) {
  const int fd = open("/dev/infiniband/uverbs0", O_RDWR);
  FILE* stream = fdopen(fd, "r+");
  ASSERT_NE(stream, nullptr);
  std::fclose(stream);  // glibc's own close
  expect_file_takes_writes(fd, make_file_at(fd));
}

TEST_F(Descriptors, dup2__over_the_device) {
  const int fd = open("/dev/infiniband/uverbs0", O_RDWR);
  expect_file_takes_writes(fd, make_file_at(fd));
}

TEST_F(Descriptors, dup__every_copy_is_the_device) {
  const int high = 200;
  const int copies[] = {dup(device_.fd()), dup2(device_.fd(), high), dup3(device_.fd(), high + 1, O_CLOEXEC),
                        fcntl(device_.fd(), F_DUPFD, 300), fcntl(device_.fd(), F_DUPFD_CLOEXEC, 400)};
  for (const int fd : copies) {
    ASSERT_GE(fd, 0);
    struct stat st;
    ASSERT_EQ(fstat(fd, &st), 0);
    EXPECT_TRUE(S_ISCHR(st.st_mode));
    ib_uverbs_alloc_pd_resp response{};
    struct {
      ib_uverbs_cmd_hdr header;
      ib_uverbs_alloc_pd request;
    } command{{IB_USER_VERBS_CMD_ALLOC_PD, 4, 1}, {reinterpret_cast<uintptr_t>(&response)}};
    EXPECT_EQ(write(fd, &command, sizeof command), static_cast<ssize_t>(sizeof command));
    close(fd);
  }
  EXPECT_EQ(device_.any_command(), 0) << "the first number still leads there";
}

TEST_F(Descriptors, scm_rights__a_copy_that_came_in_a_message_is_the_device) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  const int sent = device_.fd();
  std::memcpy(CMSG_DATA(c), &sent, sizeof sent);
  ASSERT_EQ(sendmsg(ends[0], &message, 0), 1);
  message.msg_controllen = sizeof control;
  ASSERT_EQ(recvmsg(ends[1], &message, 0), 1);
  int received;
  std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
  struct stat st;
  ASSERT_EQ(fstat(received, &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  for (const int fd : {ends[0], ends[1], received}) close(fd);
}

TEST_F(Descriptors, vfork__a_child_that_closes_everything_takes_nothing_from_us) {
  const pid_t child = vfork();
  if (child == 0) {
    syscall(SYS_close_range, 3, ~0u, 0);
    _exit(open("/dev/null", O_WRONLY) == 3 && write(3, "to nobody", 9) == 9 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  struct stat st;
  ASSERT_EQ(fstat(device_.fd(), &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  EXPECT_EQ(device_.any_command(), 0);
}

TEST_F(Descriptors, fork__the_child_is_refused_and_harms_nothing) {
  const pid_t child = fork();
  if (child == 0) {
    const int error = device_.any_command();
    uroce_kick order{};
    order.kind = UROCE_KICK_DEVICE_FATAL;
    _exit(error == EACCES && device_.kick(order) == EACCES ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(device_.any_command(), 0);
}

TEST_F(Descriptors, fork__the_child_can_open_the_device_for_itself) {
  const pid_t child = fork();
  if (child == 0) {
    const Device own;
    _exit(own.is_open() && own.any_command() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Devices come and go in all threads, each with its own events; numbers pass from one thread to the other all
// the time.
TEST_F(Descriptors, threads__open_use_and_close) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= 50; ++i) {
        Device own;
        const int channel = own.is_open() ? own.create_channel() : -1;
        const auto cq = own.create_cq(channel, t << 32 | i);
        bool good = channel >= 0 && cq && own.complete(*cq) == 0 && own.complete(*cq) == 0;
        ib_uverbs_comp_event_desc record{};
        good = good && read(channel, &record, sizeof record) == sizeof record &&
               record.cq_handle == (t << 32 | i);
        const auto told = good ? own.destroy_cq(*cq) : std::nullopt;
        if (!told || told->comp_events_reported != 1) ++wrong;
        close(channel);
        const int file = open("/dev/null", O_WRONLY);
        if (write(file, "not for a device", 16) != 16) ++wrong;
        close(file);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device_.any_command(), 0);
}

// More than there are records: those of closed descriptors are found and used again.
TEST_F(Descriptors, open__again_and_again) {
  for (int i = 0; i < 2500; ++i) {
    const int fd = open("/dev/infiniband/uverbs0", O_RDWR);
    ASSERT_GE(fd, 0) << "at " << i;
    syscall(SYS_close, fd);
  }
  EXPECT_EQ(device_.any_command(), 0);
}

}  // namespace
}  // namespace uroce::preload_test
