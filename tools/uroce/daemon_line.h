// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A conversation with the uroced of this network namespace, as its administrator.
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/uroce/fd.h"

namespace uroce::cli {

class DaemonLine {
 public:
  enum class Failure {
    none,
    nobody,    // no daemon here
    stranger,  // somebody else's process has the name
    refused,   // it does not serve this user
    broken,    // it does not answer, or not in this protocol
  };

  // Own uid's daemon, else root's. nullptr with the reason, and `why` as a sentence for a person.
  static std::unique_ptr<DaemonLine> connect(Failure& failure, std::string& why);
  static std::unique_ptr<DaemonLine> connect_as(uid_t owner, Failure& failure, std::string& why);

  // {"ok":false,"error":...} also when it stops answering.
  nlohmann::json ask(const nlohmann::json& request);
  // All pages of a status.
  nlohmann::json status();

  const std::string& version() const { return version_; }
  pid_t pid() const { return pid_; }

 private:
  explicit DaemonLine(Fd fd) : fd_(std::move(fd)) {}
  bool hello(Failure& failure, std::string& why);
  bool send_request(uint16_t type, std::span<const std::byte> payload) const;
  bool exchange(uint16_t type, std::span<const std::byte> payload, int32_t& status,
                std::vector<std::byte>& reply);

  Fd fd_;
  uint32_t seq_ = 0;
  std::string version_;
  pid_t pid_ = 0;
};

// Starts uroced for this user unless a daemon is there. False with a sentence.
bool start_daemon(const std::string& program, std::string& why);

}  // namespace uroce::cli
