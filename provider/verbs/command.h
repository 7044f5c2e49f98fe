// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// uverbs commands on a context's command descriptor. One command, two encoders: plain write(), and the ioctl
// INVOKE_WRITE where the descriptor answers it. Whoever answers, kernel or stand-in, sees the public ABI of
// <rdma/ib_user_verbs.h> with our driver data of kmod-shim/uapi behind it.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::verbs {

// One command in parts. `core_in` is the structure of ib_user_verbs.h; a legacy command's `response` member
// is filled in by the encoder. Lengths are multiples of 4 (legacy) or 8 (extended).
struct Command {
  uint32_t number = 0;
  bool extended = false;
  bool has_response_pointer = false;  // legacy: core_in begins with `response`
  std::span<const std::byte> core_in;
  std::span<const std::byte> driver_in;
  std::span<std::byte> core_out;
  std::span<std::byte> driver_out;
};

class CommandPort {
 public:
  enum class Encoding { write, ioctl };
  CommandPort(int fd, Encoding encoding) : fd_(fd), encoding_(encoding) {}
  virtual ~CommandPort() = default;

  // 0 or a positive errno (EINVAL also for a command that does not fit). Any thread. The outputs are touched
  // on success only. errno is preserved.
  int execute(const Command& command);
  Encoding encoding() const { return encoding_; }

 protected:
  // The two system calls; a test has its own.
  virtual ssize_t write_bytes(const void* bytes, size_t count);
  virtual int invoke(void* ioctl_header);

 private:
  int execute_write(const Command& command);
  int execute_ioctl(const Command& command);

  int fd_;
  Encoding encoding_;
};

// ---- typed calls
// -------------------------------------------------------------------------------------------------

struct NoData {};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
template <>
inline std::span<const std::byte> bytes_of(const NoData&) {
  return {};
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}
template <>
inline std::span<std::byte> writable_bytes_of(NoData&) {
  return {};
}

template <typename Request, typename Response = NoData, typename DriverResponse = NoData>
int call(CommandPort& port, uint32_t number, const Request& request, Response&& response = {},
         DriverResponse&& driver_response = {}) {
  Command command;
  command.number = number;
  command.has_response_pointer = requires {
    request.response;
  };
  command.core_in = bytes_of(request);
  command.core_out = writable_bytes_of(response);
  command.driver_out = writable_bytes_of(driver_response);
  return port.execute(command);
}

template <typename Request, typename Response, typename DriverResponse = NoData>
int call_extended(CommandPort& port, uint32_t number, const Request& request, Response&& response,
                  DriverResponse&& driver_response = {}) {
  Command command;
  command.number = number;
  command.extended = true;
  command.core_in = bytes_of(request);
  command.core_out = writable_bytes_of(response);
  command.driver_out = writable_bytes_of(driver_response);
  return port.execute(command);
}

}  // namespace uroce::verbs
