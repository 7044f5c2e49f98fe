// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/preload/cm_channel.h"

#include <fcntl.h>
#include <poll.h>

#include <fstream>
#include <string>

namespace uroce::preload_test {

namespace {

// A command with a number for an answer.
template <typename Request>
std::optional<uint32_t> ask(int fd, uint32_t number, Request request) {
  uint32_t answer = 0;
  request.response = reinterpret_cast<uintptr_t>(&answer);
  const int error = cm_write(fd, number, request, sizeof answer);
  if (error == 0) return answer;
  errno = error;
  return std::nullopt;
}

}  // namespace

CmChannel::CmChannel(int flags) : fd_(open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | flags)) {}

CmChannel::~CmChannel() {
  if (fd_ >= 0) close(fd_);
}

std::optional<uint32_t> CmChannel::create_id() {
  rdma_ucm_create_id request{};
  request.ps = RDMA_PS_TCP;
  return ask(fd_, RDMA_USER_CM_CMD_CREATE_ID, request);
}

std::optional<uint32_t> CmChannel::destroy_id(uint32_t id) {
  return ask(fd_, RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{0, id, 0});
}

std::optional<uint32_t> CmChannel::leave_multicast(uint32_t id) {
  return ask(fd_, RDMA_USER_CM_CMD_LEAVE_MCAST, rdma_ucm_destroy_id{0, id, 0});
}

std::optional<uint32_t> CmChannel::migrate_from(int old_fd, uint32_t id) {
  return ask(fd_, RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{0, id, static_cast<uint32_t>(old_fd)});
}

std::optional<rdma_ucm_event_resp> CmChannel::get_event() {
  rdma_ucm_event_resp event{};
  const int error = cm_write(fd_, RDMA_USER_CM_CMD_GET_EVENT,
                             rdma_ucm_get_event{reinterpret_cast<uintptr_t>(&event)}, sizeof event);
  if (error == 0) return event;
  errno = error;
  return std::nullopt;
}

int CmChannel::listen(uint32_t id) {
  return cm_write(fd_, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 1}, 0);
}

int CmChannel::set_option(uint32_t id, const void* value, uint32_t length) {
  return cm_write(
      fd_, RDMA_USER_CM_CMD_SET_OPTION,
      rdma_ucm_set_option{reinterpret_cast<uintptr_t>(value), id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, length},
      0);
}

bool is_readable(int fd) {
  pollfd waits{fd, POLLIN, 0};
  return poll(&waits, 1, 0) == 1 && (waits.revents & POLLIN) != 0;
}

bool is_in_call(pid_t thread, long call) {
  std::string line;
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
  return std::getline(file, line) && line.starts_with(std::to_string(call) + " ");
}

}  // namespace uroce::preload_test
