// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/preload/device.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace uroce::preload_test {

namespace {

int write_command(int fd, const void* bytes, size_t count) {
  const ssize_t n = write(fd, bytes, count);
  if (n < 0) return errno;
  return static_cast<size_t>(n) == count ? 0 : EIO;
}

// A core response with the driver's behind it.
template <typename Core, typename Driver>
struct Answer {
  alignas(8) char bytes[sizeof(Core) + sizeof(Driver)] = {};
  Core core() const {
    Core value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  Driver driver() const {
    Driver value;
    std::memcpy(&value, bytes + sizeof(Core), sizeof value);
    return value;
  }
};

bool readable(int fd) {
  pollfd waits{fd, POLLIN, 0};
  return poll(&waits, 1, 0) == 1 && (waits.revents & POLLIN) != 0;
}

// write() of a legacy command; 0 or errno.
template <typename Request, typename Response>
int call(int fd, uint32_t number, const Request& request, Response* response) {
  struct __attribute__((packed)) {
    ib_uverbs_cmd_hdr header;
    Request request;
  } command{{number, sizeof command / 4, sizeof(Response) / 4}, request};
  command.request.response = reinterpret_cast<uintptr_t>(response);
  return write_command(fd, &command, sizeof command);
}

template <typename Request>
int call(int fd, uint32_t number, const Request& request) {
  struct __attribute__((packed)) {
    ib_uverbs_cmd_hdr header;
    Request request;
  } command{{number, sizeof command / 4, 0}, request};
  return write_command(fd, &command, sizeof command);
}

}  // namespace

Device::Device() {
  fd_ = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
  if (fd_ < 0) return;
  Answer<ib_uverbs_get_context_resp, uroce_get_context_resp> response;
  if (call(fd_, IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, &response) == 0) {
    async_ = static_cast<int>(response.core().async_fd);
  }
}

Device::~Device() {
  if (async_ >= 0) close(async_);
  if (fd_ >= 0) close(fd_);
}

int Device::create_channel() {
  ib_uverbs_create_comp_channel_resp response{};
  const int error =
      call(fd_, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, ib_uverbs_create_comp_channel{}, &response);
  if (error == 0) return static_cast<int>(response.fd);
  errno = error;
  return -1;
}

std::optional<Device::Cq> Device::create_cq(int channel, uint64_t user_handle) {
  Answer<ib_uverbs_create_cq_resp, uroce_create_cq_resp> response;
  ib_uverbs_create_cq request{};
  request.user_handle = user_handle;
  request.cqe = 16;
  request.comp_channel = channel;
  if (call(fd_, IB_USER_VERBS_CMD_CREATE_CQ, request, &response) != 0) return std::nullopt;
  return Cq{response.core().cq_handle, response.driver().cq_id, user_handle};
}

std::optional<Device::Cq> Device::create_cq_extended(int channel, uint64_t user_handle) {
  Answer<ib_uverbs_ex_create_cq_resp, uroce_create_cq_resp> response;
  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_ex_cmd_hdr more;
    ib_uverbs_ex_create_cq request;
  } command{};
  command.header = {IB_USER_VERBS_CMD_CREATE_CQ | IB_USER_VERBS_CMD_FLAG_EXTENDED, sizeof command.request / 8,
                    0};
  static_assert(sizeof(ib_uverbs_ex_create_cq_resp) % 8 == 0 && sizeof(uroce_create_cq_resp) % 8 == 0);
  command.header.out_words = sizeof(ib_uverbs_ex_create_cq_resp) / 8;
  command.more.provider_out_words = sizeof(uroce_create_cq_resp) / 8;
  command.more.response = reinterpret_cast<uintptr_t>(&response);
  command.request.user_handle = user_handle;
  command.request.cqe = 16;
  command.request.comp_channel = channel;
  if (write_command(fd_, &command, sizeof command) != 0) return std::nullopt;
  return Cq{response.core().base.cq_handle, response.driver().cq_id, user_handle};
}

std::optional<Device::Numbered> Device::create_qp(uint64_t user_handle) {
  ib_uverbs_create_qp_resp response{};
  ib_uverbs_create_qp request{};
  request.user_handle = user_handle;
  if (call(fd_, IB_USER_VERBS_CMD_CREATE_QP, request, &response) != 0) return std::nullopt;
  return Numbered{response.qp_handle, response.qpn, user_handle};
}

std::optional<Device::Numbered> Device::create_srq(uint64_t user_handle) {
  Answer<ib_uverbs_create_srq_resp, uroce_create_srq_resp> response;
  ib_uverbs_create_srq request{};
  request.user_handle = user_handle;
  if (call(fd_, IB_USER_VERBS_CMD_CREATE_SRQ, request, &response) != 0) return std::nullopt;
  return Numbered{response.core().srq_handle, response.driver().srq_number, user_handle};
}

std::optional<ib_uverbs_destroy_cq_resp> Device::destroy_cq(const Cq& cq) {
  ib_uverbs_destroy_cq request{};
  ib_uverbs_destroy_cq_resp response{77, 77};
  request.cq_handle = cq.handle;
  if (call(fd_, IB_USER_VERBS_CMD_DESTROY_CQ, request, &response) != 0) return std::nullopt;
  return response;
}

std::optional<uint32_t> Device::destroy_qp(const Numbered& qp) {
  ib_uverbs_destroy_qp request{};
  ib_uverbs_destroy_qp_resp response{77};
  request.qp_handle = qp.handle;
  if (call(fd_, IB_USER_VERBS_CMD_DESTROY_QP, request, &response) != 0) return std::nullopt;
  return response.events_reported;
}

std::optional<uint32_t> Device::destroy_srq(const Numbered& srq) {
  ib_uverbs_destroy_srq request{};
  ib_uverbs_destroy_srq_resp response{77};
  request.srq_handle = srq.handle;
  if (call(fd_, IB_USER_VERBS_CMD_DESTROY_SRQ, request, &response) != 0) return std::nullopt;
  return response.events_reported;
}

int Device::kick(const uroce_kick& order) const {
  return call(fd_, IB_USER_VERBS_CMD_PEEK_CQ, order);
}

int Device::any_command() const {
  ib_uverbs_alloc_pd_resp response{};
  return call(fd_, IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, &response);
}

std::vector<uint64_t> read_completions(int channel) {
  std::vector<uint64_t> found;
  for (ib_uverbs_comp_event_desc record;
       readable(channel) && read(channel, &record, sizeof record) == sizeof record;) {
    found.push_back(record.cq_handle);
  }
  return found;
}

std::vector<ib_uverbs_async_event_desc> read_asyncs(int async) {
  std::vector<ib_uverbs_async_event_desc> found;
  for (ib_uverbs_async_event_desc record;
       readable(async) && read(async, &record, sizeof record) == sizeof record;) {
    found.push_back(record);
  }
  return found;
}

std::set<int> kept_numbers() {
  std::set<int> numbers;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    if (std::atoi(entry->d_name) > 100) numbers.insert(std::atoi(entry->d_name));
  }
  closedir(directory);
  return numbers;
}

}  // namespace uroce::preload_test
