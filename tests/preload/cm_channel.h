// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The program's side of a test: opens /dev/infiniband/rdma_cm through the stand-in and writes commands as
// librdmacm does.
#pragma once

#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <vector>

namespace uroce::preload_test {

class CmChannel {
 public:
  explicit CmChannel(int flags = 0);  // check is_open()
  ~CmChannel();
  CmChannel(const CmChannel&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void use(int fd) { fd_ = fd; }  // instead, from now on

  // What cannot be had is nothing, with errno.
  std::optional<uint32_t> create_id();
  std::optional<uint32_t> destroy_id(uint32_t id);  // events_reported
  std::optional<uint32_t> leave_multicast(uint32_t id);
  std::optional<uint32_t> migrate_from(int old_fd, uint32_t id);
  std::optional<rdma_ucm_event_resp> get_event();
  int listen(uint32_t id);  // 0 or errno
  int set_option(uint32_t id, const void* value, uint32_t length);

 private:
  int fd_;
};

template <typename Request>
struct __attribute__((packed)) CmCommand {
  rdma_ucm_cmd_hdr header;
  Request request;
};

// write() of a command; 0 or errno.
template <typename Request>
int cm_write(int fd, uint32_t number, const Request& request, size_t room) {
  const CmCommand<Request> command{{number, sizeof request, static_cast<uint16_t>(room)}, request};
  const ssize_t n = write(fd, &command, sizeof command);
  if (n < 0) return errno;
  return static_cast<size_t>(n) == sizeof command ? 0 : EIO;
}

bool is_readable(int fd);

// A thread of this process sleeps in that system call.
bool is_in_call(pid_t thread, long call);

}  // namespace uroce::preload_test
