// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The connection manager of the fake daemon: ids that only have events, which the test makes. Calls come from
// the daemon's thread and the test's.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "kmod-shim/uapi/uroce_daemon.h"

namespace uroce::preload_test {

class FakeRdmaCm {
 public:
  ~FakeRdmaCm();

  // Of the test.
  void queue_event(uint32_t id, uint64_t uid);
  void forget_events();  // as a worker that was replaced: the bytes stay
  void hang_up();        // as a daemon that ends
  size_t open_channels() const;

  // Of the daemon. The program's end, which the caller closes; -1: no descriptors.
  int open(int connection, uint32_t& number);
  void closed(int connection);
  std::vector<int> far_ends() const;
  void drop_those_hung_up();
  // The status; `answer` is what follows uroce_msg.
  int command(int connection, const std::vector<uint8_t>& written, std::vector<uint8_t>& answer);

 private:
  struct Event {
    uint32_t id;
    uint64_t uid;
  };
  struct Channel {
    int connection, far_end;
    uint32_t number;
    size_t bytes = 0;  // in the program's socket
    std::deque<Event> events;
  };
  Channel* of_connection(int connection);
  static void send_bytes(Channel& channel);
  static uint32_t withdraw(Channel& channel, size_t events_gone);
  static std::vector<Event> take_events(Channel& channel, uint32_t id);
  int destroy(Channel& channel, uint32_t id, uroce_cm_reply& told, uint32_t& reported);
  int migrate(Channel& channel, const rdma_ucm_migrate_id& order, uroce_cm_reply& told, uint32_t& reported);

  mutable std::mutex mutex_;  // guards everything
  std::list<Channel> channels_;
  std::map<uint32_t, Channel*> ids_;
  std::map<uint32_t, uint32_t> reported_;
  uint32_t next_id_ = 1, next_number_ = 1000;
};

}  // namespace uroce::preload_test
