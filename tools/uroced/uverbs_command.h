// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The bytes a program wrote to /dev/infiniband/uverbsN, taken apart by the kernel's rules: the lengths in the
// header must agree with the length of the write, the core's structure must be whole, and what exceeds it is
// the driver's. Pure.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace uroce::daemon {

// What one command must carry at least.
struct CommandShape {
  uint32_t number;
  bool extended;
  size_t request_bytes;   // core request
  size_t response_bytes;  // core response, 0: none
};

struct Command {
  const CommandShape* shape = nullptr;
  std::span<const std::byte> core_in;  // at least shape->request_bytes
  std::span<const std::byte> driver_in;
  size_t core_out = 0;  // bytes the caller has room for
  size_t driver_out = 0;
};

// 0; EINVAL: lengths that contradict each other, or unknown bits; EOPNOTSUPP: no such command in `shapes`;
// ENOSPC: too short for the command's request or response.
int parse_command(std::span<const std::byte> written, std::span<const CommandShape> shapes, Command& out);

// Writes the answer as the kernel lays it out: core response, then the driver's behind it.
class CommandReply {
 public:
  explicit CommandReply(const Command& command) : command_(command) {}

  template <typename T>
  void core(const T& response) {
    put(0, &response, sizeof response < command_.core_out ? sizeof response : command_.core_out);
  }
  // What does not fit is cut off, as ib_copy_to_udata's callers do.
  template <typename T>
  void driver(const T& response) {
    put(command_.core_out, &response,
        sizeof response < command_.driver_out ? sizeof response : command_.driver_out);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void put(size_t at, const void* source, size_t count) {
    if (count == 0) return;
    if (bytes_.size() < at + count) bytes_.resize(at + count);
    std::memcpy(bytes_.data() + at, source, count);
  }

  const Command& command_;
  std::vector<std::byte> bytes_;
};

}  // namespace uroce::daemon
