// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the stand-in must not do to the programs it is in: allocate, swallow a cancellation, be missing before
// its own constructor ran.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "tests/preload/device.h"
#include "tests/preload/fake_daemon.h"

namespace {

thread_local bool counts_allocations;
std::atomic<int> allocations;

// Before any constructor, the stand-in's too.
int early_descriptor = -1;
ssize_t early_write = -1;
void use_calls_early(int, char**, char**) {
  early_descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC);
  struct stat st;
  if (fstat(early_descriptor, &st) == 0 && stat("/dev/null", &st) == 0)
    early_write = write(early_descriptor, "early", 5);
}
__attribute__((section(".preinit_array"), used)) void (*const early)(int, char**, char**) = use_calls_early;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define UROCE_COUNTS_ALLOCATIONS 1
extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* __libc_calloc(size_t count, size_t bytes);
extern "C" __attribute__((visibility("default"))) void* malloc(size_t bytes) {
  if (counts_allocations) ++allocations;
  return __libc_malloc(bytes);
}
extern "C" __attribute__((visibility("default"))) void* calloc(size_t count, size_t bytes) {
  if (counts_allocations) ++allocations;
  return __libc_calloc(count, bytes);
}
#else
#define UROCE_COUNTS_ALLOCATIONS 0
#endif

namespace uroce::preload_test {
namespace {

class Safety : public ::testing::Test {
 protected:
  FakeDaemon daemon_;
};

template <typename F>
int allocations_in(F&& f) {
  allocations = 0;
  counts_allocations = true;
  f();
  counts_allocations = false;
  return allocations;
}

TEST_F(Safety, allocation__none) {
  if (!UROCE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitizer owns malloc";
  EXPECT_GT(allocations_in([] { std::free(std::malloc(10)); }), 0) << "the counter counts";
  std::optional<Device> device;
  EXPECT_EQ(allocations_in([&] { device.emplace(); }), 0);
  ASSERT_TRUE(device->is_open());
  std::optional<Device::Cq> cq;
  EXPECT_EQ(allocations_in([&] { cq = device->create_cq(device->create_channel(), 1); }), 0);
  EXPECT_EQ(allocations_in([&] { device->complete(*cq); }), 0);
  EXPECT_EQ(allocations_in([&] { device->destroy_cq(*cq); }), 0);
  EXPECT_EQ(allocations_in([] {
              const int fd = open("/dev/null", O_WRONLY);
              struct stat st;
              EXPECT_EQ(fstat(fd, &st), 0);
              EXPECT_EQ(write(fd, "x", 1), 1);
              close(fd);
              EXPECT_EQ(stat("/sys/class/infiniband/ur0", &st), 0);
              close(socket(AF_NETLINK, SOCK_RAW, 20));
            }),
            0);
}

TEST_F(Safety, preinit__calls_work_before_the_constructor) {
  EXPECT_GE(early_descriptor, 0);
  EXPECT_EQ(early_write, 5);
}

TEST_F(Safety, errno__is_as_before_when_nothing_failed) {
  const Device device;
  errno = 4711;
  struct stat st;
  EXPECT_EQ(fstat(device.fd(), &st), 0);
  EXPECT_EQ(stat("/dev/infiniband/uverbs0", &st), 0);
  EXPECT_EQ(device.any_command(), 0);
  EXPECT_EQ(close(dup(device.fd())), 0);
  EXPECT_EQ(errno, 4711);
}

TEST_F(Safety, cancel__a_blocked_read_of_any_file_ends) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<bool> started{false};
  struct Arguments {
    int fd;
    std::atomic<bool>* started;
    char byte;  // not on the cancelled stack, whose red zones a sanitizer would leave behind
  } arguments{ends[0], &started, 0};
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void* given) -> void* {
        Arguments* a = static_cast<Arguments*>(given);
        *a->started = true;
        return read(a->fd, &a->byte, 1) == 0 ? nullptr : given;
      },
      &arguments);
  while (!started) std::this_thread::yield();
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Safety, cancel__a_command_is_no_cancellation_point) {
  const Device device;
  struct Arguments {
    const Device* device;
    std::atomic<int> error{-1};
  } arguments{&device, {}};
  daemon_.hold_next_command();
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void* given) -> void* {
        Arguments* a = static_cast<Arguments*>(given);
        a->error = a->device->any_command();
        pthread_testcancel();
        return nullptr;
      },
      &arguments);
  while (!daemon_.holding()) std::this_thread::yield();
  pthread_cancel(thread);
  daemon_.release_command();
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_EQ(arguments.error, 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_EQ(device.any_command(), 0) << "no lock was left behind";
}

}  // namespace
}  // namespace uroce::preload_test
