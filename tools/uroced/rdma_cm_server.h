// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What is behind /dev/infiniband/rdma_cm: channels, the identifiers of their programs, the queue of events,
// and one method per command of <rdma/rdma_user_cm.h>. Errors are those of the kernel's ucma.
//
// The connection manager's state dies with the worker. What survives is which identifiers there were: the
// next worker tells each of them that its device is gone, and takes nothing but queries and DESTROY_ID for it
// (EIO).
#pragma once

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/uroced/answers.h"
#include "tools/uroced/cm/rdma_cm.h"
#include "tools/uroced/cm_host.h"
#include "tools/uroced/connections.h"
#include "tools/uroced/gsi.h"

namespace uroce::daemon {

class RdmaCmServer {
 public:
  RdmaCmServer(Loop& loop, Registry& registry, KeeperLine& keeper, Connections& connections,
               DeviceSet& devices, netlink::RouteTable& routes, SlotGroup& slots);
  ~RdmaCmServer();

  void adopt();
  // The program's end of a new channel; its number is the connection's position.
  Fd open_channel(uint32_t connection, std::string& why);
  void close_channel(uint32_t connection);
  void on_command(uint32_t connection, const Message& message);
  void on_device_removed(uint32_t device);
  // QP 1 listens from the first device on.
  void on_device_added();

  uint32_t pid_of(uint32_t id) const;
  const cm::RdmaCm& manager() const { return cm_; }
  const Gsi::Counters& gsi_counters() const { return gsi_.counters(); }

 private:
  struct Queued {
    cm::IdEvent event;
    uint64_t uid = 0;  // multicast: of the group
  };
  struct Channel {
    Fd far_end;
    std::unique_ptr<FdWatch> watch;
    std::deque<Queued> events;
    uint32_t owed = 0;  // of the bytes that stand for them, not sent yet
  };
  struct Membership {
    uint32_t id = 0;
    uint64_t uid = 0;
    uint32_t events_reported = 0;
  };
  struct Call {
    uint32_t connection = 0;
    Channel& channel;
    std::span<const std::byte> request;
    size_t room = 0;  // for the answer
    std::vector<std::byte> answer{};
    uint32_t withdrawn = 0;
  };
  using Handler = int (RdmaCmServer::*)(Call&);
  static Handler handler_of(uint32_t command);

  int execute(uint32_t connection, const Message& message, std::vector<std::byte>& reply);
  // 0 or errno: a live identifier of this channel; those whose device is gone are refused with EIO.
  int check(const Call& call, uint32_t id, bool may_be_closing = false) const;
  // Some requests end in padding that a program need not write.
  template <typename Request>
  static bool read(const Call& call, Request& out) {
    out = Request{};
    if (call.request.size() + sizeof(uint64_t) <= sizeof out) return false;
    std::memcpy(&out, call.request.data(), std::min(sizeof out, call.request.size()));
    return true;
  }
  template <typename Answer>
  static int write(Call& call, const Answer& answer) {
    if (call.room < sizeof answer) return ENOSPC;
    const auto* bytes = reinterpret_cast<const std::byte*>(&answer);
    call.answer.assign(bytes, bytes + sizeof answer);
    return 0;
  }

  int create_id(Call& call);
  int destroy_id(Call& call);
  int bind_ip(Call& call);
  int bind(Call& call);
  int resolve_ip(Call& call);
  int resolve_addr(Call& call);
  int resolve_route(Call& call);
  int query_route(Call& call);
  int query(Call& call);
  int query_path(Call& call, const cm::CmId& id);
  int connect(Call& call);
  int listen(Call& call);
  int accept(Call& call);
  int reject(Call& call);
  int disconnect(Call& call);
  int init_qp_attr(Call& call);
  int get_event(Call& call);
  int set_option(Call& call);
  int notify(Call& call);
  int join_ip_mcast(Call& call);
  int join_mcast(Call& call);
  int join(Call& call, uint32_t id, uint64_t uid, std::span<const std::byte> address);
  int leave_mcast(Call& call);
  int migrate_id(Call& call);

  CmIdRecord& record(uint32_t id) { return registry_.edit(registry_.state().cm_ids[id]); }
  const CmIdRecord& record(uint32_t id) const { return registry_.state().cm_ids[id]; }
  void remember(uint32_t id, uint32_t connection, uint64_t uid);
  void forget(uint32_t id);
  bool is_privileged(uint32_t connection) const;
  cm::Time now() const;

  void add_channel(uint32_t connection, Fd far_end);
  void flush();
  void deliver(const cm::IdEvent& event);
  void enqueue(uint32_t connection, const Queued& queued);
  void pay(Channel& channel);
  // Takes out the events that `matches` says yes to; what was sent for them is in the result.
  template <typename Matches>
  uint32_t withdraw(Channel& channel, Matches&& matches);

  Loop& loop_;
  Registry& registry_;
  KeeperLine& keeper_;
  Connections& connections_;
  Answers answers_;
  SlotGroup& slots_;
  CmHost host_;
  cm::RdmaCm cm_;
  Gsi gsi_;
  Timer timer_;
  std::map<uint32_t, Channel> channels_;       // by connection
  std::unordered_map<uint32_t, int> backlog_;  // of listeners: how many more requests may wait
  std::map<uint32_t, Membership> groups_;
};

}  // namespace uroce::daemon
