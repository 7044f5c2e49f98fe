// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The program's side of a test: opens /dev/infiniband/uverbs0 through the stand-in and writes commands as
// libibverbs does.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "kmod-shim/uapi/uroce_abi.h"

namespace uroce::preload_test {

class Device {
 public:
  Device();  // open, GET_CONTEXT; check is_open()
  ~Device();
  Device(const Device&) = delete;

  bool is_open() const { return fd_ >= 0 && async_ >= 0; }
  int fd() const { return fd_; }
  int async() const { return async_; }

  struct Cq {
    uint32_t handle, id;
    uint64_t user_handle;
  };
  int create_channel();  // its descriptor, or -1 with errno
  std::optional<Cq> create_cq(int channel, uint64_t user_handle);
  std::optional<Cq> create_cq_extended(int channel, uint64_t user_handle);
  struct Numbered {
    uint32_t handle, number;
    uint64_t user_handle;
  };
  std::optional<Numbered> create_qp(uint64_t user_handle);
  std::optional<Numbered> create_srq(uint64_t user_handle);
  std::optional<ib_uverbs_destroy_cq_resp> destroy_cq(const Cq& cq);
  std::optional<uint32_t> destroy_qp(const Numbered& qp);
  std::optional<uint32_t> destroy_srq(const Numbered& srq);

  int kick(const uroce_kick& order) const;  // 0 or errno
  int complete(const Cq& cq) const { return kick({UROCE_KICK_COMPLETION, cq.id, 0, 0, cq.user_handle}); }
  int any_command() const;  // one that only uroced can answer; 0 or errno

 private:
  int fd_ = -1, async_ = -1;
};

// Records that can be read at once, without waiting.
std::vector<uint64_t> read_completions(int channel);
std::vector<ib_uverbs_async_event_desc> read_asyncs(int async);

// Descriptors of the stand-in: far above what the test and the daemon in its thread have open.
std::set<int> kept_numbers();

}  // namespace uroce::preload_test
