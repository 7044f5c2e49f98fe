// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A client of the daemon, as the stand-in and the provider are ones.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kmod-shim/uapi/uroce_abi.h"
#include "tools/uroced/message.h"

namespace uroce::daemon {

class DaemonClient {
 public:
  bool connect(uid_t uid = geteuid());
  void disconnect() { fd_.reset(); }
  int descriptor() const { return fd_.get(); }

  struct HelloAnswer {
    int status = -1;  // -1: no answer
    uroce_hello_reply reply{};
    std::vector<Fd> descriptors;
  };
  HelloAnswer hello(uint32_t role, uint32_t arg = 0, uint64_t cookie = 0);
  nlohmann::json admin(const nlohmann::json& request);

  struct Answer {
    int status = -1;
    std::vector<std::byte> payload;
    std::vector<Fd> descriptors;
  };
  // Sends and waits; sends again when the daemon says that it was restarted.
  Answer request(uint16_t type, std::span<const std::byte> payload);
  // In two steps.
  bool send(uint16_t type, uint32_t seq, std::span<const std::byte> payload);
  std::optional<Message> receive(int timeout_ms = 10'000);
  int restarts() const { return restarts_; }
  bool gone() const { return gone_; }

  // A legacy uverbs command; its status.
  template <typename Request, typename Response = int, typename Driver = int>
  int command(uint32_t number, const Request& body, Response* response = nullptr, Driver* driver = nullptr) {
    const size_t room =
        (response != nullptr ? sizeof(Response) : 0) + (driver != nullptr ? sizeof(Driver) : 0);
    last_ = request(UROCE_MSG_COMMAND, legacy(number, std::as_bytes(std::span(&body, 1)), room));
    const auto copy = [&](void* to, size_t bytes, size_t at) {
      if (last_.payload.size() >= at + bytes) std::memcpy(to, last_.payload.data() + at, bytes);
    };
    if (last_.status == 0 && response != nullptr) copy(response, sizeof(Response), 0);
    if (last_.status == 0 && driver != nullptr) copy(driver, sizeof(Driver), sizeof(Response));
    return last_.status;
  }
  static std::vector<std::byte> legacy(uint32_t number, std::span<const std::byte> body, size_t room);
  Answer& last() { return last_; }

  // HELLO as uverbs<minor>, and GET_CONTEXT.
  bool open_device(uint32_t minor = 0);
  uint32_t slot() const { return context_.slot; }
  uint64_t cookie() const { return context_.cookie; }
  int async_fd() const { return async_.get(); }
  // The next asynchronous event, 0 when none comes in time.
  uint32_t next_event(int timeout_ms = 5000);

  uint32_t alloc_pd();
  uint32_t create_cq(uint32_t entries = 16);
  ib_uverbs_create_qp_resp create_qp(uint32_t pd, uint32_t cq);

 private:
  Fd fd_, async_, far_end_;
  uint32_t seq_ = 0;
  int restarts_ = 0;
  bool gone_ = false;
  Answer last_;
  uroce_get_context_resp context_{};
};

}  // namespace uroce::daemon
