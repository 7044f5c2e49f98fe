// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A conversation with the uroced of this network namespace, as its administrator.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "tools/uroce/fd.h"

namespace uroce::cli {

class DaemonLine {
 public:
  enum class Failure {
    none,
    nobody,    // no daemon here, or another user's that makes way
    stranger,  // somebody else's process has the name, or one that accepts nothing
    refused,   // it is another user's
    broken,    // it does not answer, or not in this protocol
  };

  // By the names of the own uid, of root, and the common one. nullptr with the reason, and `why` as a
  // sentence for a person.
  static std::unique_ptr<DaemonLine> connect(Failure& failure, std::string& why);

  // {"ok":false,"error":...} also when it stops answering.
  nlohmann::json ask(const nlohmann::json& request);
  // All pages of a status.
  nlohmann::json status();

  const std::string& version() const { return version_; }
  pid_t pid() const { return pid_; }

 private:
  struct Received {
    uroce_msg header{};
    std::vector<std::byte> payload;
  };
  explicit DaemonLine(Fd fd) : fd_(std::move(fd)) {}
  static std::unique_ptr<DaemonLine> connect_to(const std::string& name, Failure& failure, std::string& why);
  bool hello(Failure& failure, std::string& why);
  void judge_refusal(int32_t status, Failure& failure, std::string& why) const;
  bool is_stranger() const { return owner_.uid != 0 && owner_.uid != geteuid(); }
  bool send_request(uint16_t type, std::span<const std::byte> payload) const;
  std::optional<Received> next_message();
  // False with the reason in trouble_.
  bool exchange(uint16_t type, std::span<const std::byte> payload, int32_t& status,
                std::vector<std::byte>& reply);

  Fd fd_;
  ucred owner_{};  // the keeper
  uint32_t seq_ = 0;
  std::string trouble_;
  std::string version_;
  pid_t pid_ = 0;
};

// Starts uroced for this user unless a daemon is there. False with a sentence.
bool start_daemon(const std::string& program, std::string& why);

}  // namespace uroce::cli
