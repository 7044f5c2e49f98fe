// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A uroced of a few lines for the stand-in to talk to: a tree with one device, uverbs commands answered by a
// table in memory, rdma_cm ids with events, a netlink port that echoes. It runs in a thread of the test. What
// it does on request shows the stand-in a bad day: restart, leave, refuse.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "tests/preload/fake_rdma_cm.h"

namespace uroce::preload_test {

class FakeDaemon {
 public:
  FakeDaemon();  // listens as the caller's own uid when it returns
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;

  const std::string& tree() const { return tree_; }
  uint32_t netlink_port() const { return netlink_port_; }
  // Says that its port is another one, as when somebody has taken it after a daemon's death.
  void announce_netlink_port(uint32_t port) { announced_port_ = port; }

  // The next commands, as uroced got them.
  std::vector<std::vector<uint8_t>> commands() const;
  int hellos(uint32_t role) const { return hellos_[role]; }

  // Every HELLO of that role; one of another user is refused like that anyway.
  void refuse(uint32_t role, int status, const std::string& text);
  void restart_in_next_command() { restarts_ = 1; }  // loses the request, asks for it again, answers it twice
  void leave_in_next_command() { leaves_ = 1; }      // GONE
  void fail_next_command(int status, const std::string& sentence = "");
  void hold_next_command() { holds_ = 1; }  // until release_command
  bool holding() const { return held_; }
  void release_command();
  // A record into the async queue of the last opened context, as uroced sends port events.
  bool send_async(uint64_t element, uint32_t event_type);
  FakeRdmaCm& rdma_cm() { return rdma_cm_; }

 private:
  struct Client {
    int fd = -1;
    uint32_t role = 0;
  };
  void run();
  void accept_client();
  bool serve(Client& client);  // false: it is gone
  void on_hello(Client& client, const uroce_msg& header, const uroce_hello& hello);
  bool on_command(Client& client, const uroce_msg& header, const std::vector<uint8_t>& written);
  void on_uverbs_command(const Client& client, uroce_msg reply, const std::vector<uint8_t>& written);
  void on_rdma_cm_command(const Client& client, uroce_msg reply, const std::vector<uint8_t>& written);
  void echo_netlink();
  void make_tree();
  void make_netlink();

  std::string tree_;
  uint32_t netlink_port_ = 0;
  int listener_ = -1, netlink_ = -1, stop_ = -1, release_ = -1;
  std::vector<Client> clients_;
  uint32_t next_handle_ = 1;
  FakeRdmaCm rdma_cm_;
  std::atomic<int> async_far_end_{-1};

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::vector<uint8_t>> commands_;
  uint32_t refused_role_ = 0;
  int refusal_ = 0;
  std::string refusal_text_, failure_text_;

  std::atomic<uint32_t> announced_port_{0};
  std::atomic<int> hellos_[8] = {};
  std::atomic<int> restarts_{0}, leaves_{0}, fails_{0}, holds_{0};
  std::atomic<bool> held_{false};
  std::thread thread_;
};

}  // namespace uroce::preload_test
