// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace uroce::cli {

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Fd() { close_now(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close_now() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace uroce::cli
