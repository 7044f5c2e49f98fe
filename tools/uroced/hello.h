// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The first message of a connection: who may have which role, and where things are.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "tools/uroced/broker.h"
#include "tools/uroced/rdma_cm_server.h"

namespace uroce::daemon {

class Hello {
 public:
  struct Facts {
    std::string tree;
    uint32_t netlink_port = 0;
  };
  // What another uid's process may be told, and what follows.
  struct Ownership {
    std::function<void()> note_use;             // somebody of our own uid was here
    std::function<bool(bool leave)> is_no_use;  // to nobody; `leave`: then it is to end
  };
  Hello(Registry& registry, Connections& connections, DeviceSet& devices, Broker& broker,
        RdmaCmServer& rdma_cm, std::function<Facts()> facts, Ownership ownership)
      : registry_(registry),
        connections_(connections),
        devices_(devices),
        broker_(broker),
        rdma_cm_(rdma_cm),
        facts_(std::move(facts)),
        ownership_(std::move(ownership)) {}

  void on_hello(uint32_t connection, const Message& message);

 private:
  // The errno for a stranger, and the sentence.
  int turn_away(const ConnectionRecord& stranger, uint32_t role, std::string& why);
  // One protocol, two builds: it works, but somebody will wonder. Told once.
  void note_version(const char* version, uint32_t pid);
  // What goes with the answer.
  struct Handout {
    Broker::Grant grant;
    Fd channel_end;
  };
  int take_role(uint32_t connection, const uroce_hello& hello, Handout& handout, std::string& why);
  int open_rdma_cm(uint32_t connection, Handout& handout, std::string& why);
  int open_device(uint32_t connection, uint32_t minor, std::string& why);

  Registry& registry_;
  Connections& connections_;
  DeviceSet& devices_;
  Broker& broker_;
  RdmaCmServer& rdma_cm_;
  std::function<Facts()> facts_;
  Ownership ownership_;
  std::set<std::string> other_versions_;
};

}  // namespace uroce::daemon
