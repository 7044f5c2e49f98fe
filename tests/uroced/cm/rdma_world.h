// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Two machines with a connection manager each, a wire that loses what a test says, and a clock moved by hand.
#pragma once

#include <vector>

#include "tests/uroced/cm/ib_cm_world.h"
#include "tools/uroced/cm/rdma_cm.h"

namespace uroce::cm::test {

// A machine with netdevs 2 and 4, which have devices 7 and 8, and netdev 3 without one.
class FakeHost final : public cm::Host {
 public:
  explicit FakeHost(uint8_t number);

  std::optional<LocalPort> port_of(const wire::Gid& ip, uint32_t ifindex) const override;
  bool is_own_address(const wire::Gid& ip, uint32_t ifindex) const override;
  DeviceView device(uint32_t position) const override;
  std::optional<wire::Gid> first_address(bool ipv4) const override;
  std::optional<Way> way_to(const wire::Gid& destination, const wire::Gid& source,
                            uint32_t ifindex) const override;
  Neighbour neighbour(const Way& way) override;
  PortTable::Range ephemeral_ports() const override { return range; }

  struct Own {
    wire::Gid ip;
    uint32_t ifindex = 0;
    uint32_t device = 0;  // 0: none
  };
  std::vector<Own> own;
  int no_way = 0;  // errno
  Neighbour peers = Neighbour::reachable;
  PortTable::Range range;
  uint8_t ca_ack_delay = 15;

  mutable uint32_t asked_netdev = 0;  // of the last way
  int asked_neighbours = 0;

 private:
  const Own* find(const wire::Gid& ip, uint32_t ifindex) const;
  const uint8_t number_;
};

struct Side {
  explicit Side(uint8_t number);
  FakeHost host;
  RdmaCm cm;
  Address ip4, ip6, link_local;  // of device 7; port 7471
  std::vector<IdEvent> events;   // not yet looked at

  // A new identifier; fails the test when there is none.
  uint32_t create(uint16_t port_space = RDMA_PS_TCP, QpType type = QpType::rc);
  uint32_t listener(const Address& address, uint16_t port_space = RDMA_PS_TCP, QpType type = QpType::rc);
  IdState state(uint32_t id) const { return cm.find(id)->state; }
  // The next event; fails the test unless it is of this kind.
  IdEvent expect(EventKind kind);
  bool quiet() const { return events.empty(); }
};

class RdmaWorld : public Wire {
 public:
  Side a{1}, b{2};

  void deliver() override;
  void advance_ms(int64_t ms) { pass_time(a.cm, b.cm, ms * kMs); }
  // The MAD of `message` reaches `to` as if `from` had sent it.
  void inject(Side& to, const Side& from, const wire::CmMessage& message);

  // An identifier of a that has a route to `destination`.
  uint32_t routed(const Address& destination, uint16_t port_space = RDMA_PS_TCP, QpType type = QpType::rc);
  struct Ends {
    uint32_t listener = 0, active = 0, passive = 0;
  };
  // a connects to b; b has heard of the request and not answered. The event is in `request`.
  Ends requested(uint16_t port_space = RDMA_PS_TCP, QpType type = QpType::rc, QpType listener = QpType::rc);
  // The same, and b has accepted; a has the reply.
  Ends replied(QpType type = QpType::rc, QpType listener = QpType::rc);
  Ends established();
  IdEvent request;

 private:
  void collect();
  bool carry(Side& from);
};

Address at(const Address& address, uint16_t port);
rdma_ucm_conn_param parameters(uint32_t qpn = 0x111, size_t private_bytes = 0);

}  // namespace uroce::cm::test
