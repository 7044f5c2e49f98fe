// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What is behind an open rdma_cm, said command by command to the daemon as it is started.
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "provider/wire/cm_message.h"
#include "provider/wire/icrc.h"
#include "provider/wire/packet.h"
#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"

namespace uroce::daemon {
namespace {

constexpr uint32_t kAddressResolved = 0, kConnectRequest = 4, kConnectResponse = 5, kRejected = 8,
                   kEstablished = 9, kDisconnected = 10, kDeviceRemoval = 11;

sockaddr_in6 loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 out{};
  std::memcpy(&out, &address, sizeof address);
  return out;
}

class Channel {
 public:
  bool open() {
    if (!client_.connect()) return false;
    auto told = client_.hello(UROCE_ROLE_RDMA_CM);
    if (told.status != 0 || told.descriptors.size() != 1) return false;
    program_end_ = std::move(told.descriptors[0]);
    number_ = told.reply.channel;
    return true;
  }
  uint32_t number() const { return number_; }
  DaemonClient& client() { return client_; }
  void close_file() { program_end_.reset(); }

  // Events that the descriptor promises.
  int promised() const {
    int bytes = 0;
    ioctl(program_end_.get(), FIONREAD, &bytes);
    return bytes;
  }

  std::vector<std::byte> written(uint32_t number, std::span<const std::byte> request, size_t room) {
    const rdma_ucm_cmd_hdr header{number, static_cast<uint16_t>(request.size()), static_cast<uint16_t>(room)};
    const auto head = std::as_bytes(std::span(&header, 1));
    std::vector<std::byte> out(head.begin(), head.end());
    out.insert(out.end(), request.begin(), request.end());
    return out;
  }
  template <typename Request, typename Response = int>
  int command(uint32_t number, const Request& request, Response* response = nullptr) {
    const auto bytes =
        written(number, std::as_bytes(std::span(&request, 1)), response == nullptr ? 0 : sizeof *response);
    auto answer = client_.request(UROCE_MSG_COMMAND, bytes);
    if (answer.status != 0) return answer.status;
    uroce_cm_reply head{};
    if (answer.payload.size() < sizeof head) return -1;
    std::memcpy(&head, answer.payload.data(), sizeof head);
    withdrawn_ = head.withdrawn;
    if (response != nullptr && answer.payload.size() >= sizeof head + sizeof *response)
      std::memcpy(response, answer.payload.data() + sizeof head, sizeof *response);
    return 0;
  }
  uint32_t withdrawn() const { return withdrawn_; }

  uint32_t create(uint64_t uid, uint16_t space = RDMA_PS_TCP) {
    rdma_ucm_create_id request{};
    request.uid = uid;
    request.ps = space;
    rdma_ucm_create_id_resp made{};
    return command(RDMA_USER_CM_CMD_CREATE_ID, request, &made) == 0 ? made.id : 0;
  }
  int destroy(uint32_t id, uint32_t& reported) {
    rdma_ucm_destroy_id request{};
    request.id = id;
    rdma_ucm_destroy_id_resp told{};
    const int error = command(RDMA_USER_CM_CMD_DESTROY_ID, request, &told);
    reported = told.events_reported;
    return error;
  }
  int resolve(uint32_t id, uint16_t port) {
    rdma_ucm_resolve_ip request{};
    request.id = id;
    request.timeout_ms = 2000;
    request.dst_addr = loopback(port);
    return command(RDMA_USER_CM_CMD_RESOLVE_IP, request);
  }
  int listen(uint32_t id, uint16_t port, uint32_t backlog = 0) {
    rdma_ucm_bind_ip bind{};
    bind.id = id;
    bind.addr = loopback(port);
    if (const int error = command(RDMA_USER_CM_CMD_BIND_IP, bind); error != 0) return error;
    return command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, backlog});
  }
  // Resolved and asked for a connection.
  uint32_t begin_connecting(uint64_t uid, uint16_t port) {
    const uint32_t id = create(uid);
    EXPECT_EQ(resolve(id, port), 0);
    EXPECT_EQ(event().event, kAddressResolved);
    EXPECT_EQ(command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2000}), 0);
    event();
    rdma_ucm_connect request{};
    request.id = id;
    request.conn_param.valid = 1;
    request.conn_param.qp_num = 0x4321;
    EXPECT_EQ(command(RDMA_USER_CM_CMD_CONNECT, request), 0);
    return id;
  }
  int accept(uint32_t id, uint64_t uid, bool passive) {
    rdma_ucm_accept request{};
    request.id = id;
    request.uid = uid;
    request.conn_param.valid = passive ? 1 : 0;
    request.conn_param.qp_num = 0x1234;
    return command(RDMA_USER_CM_CMD_ACCEPT, request);
  }

  int try_event(rdma_ucm_event_resp& out) {
    return command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, &out);
  }
  // Waits for it as a program does, by the descriptor.
  rdma_ucm_event_resp event() {
    pollfd waits{program_end_.get(), POLLIN, 0};
    rdma_ucm_event_resp out{};
    out.event = ~0u;
    char byte;
    if (poll(&waits, 1, 10'000) != 1 || recv(program_end_.get(), &byte, 1, MSG_DONTWAIT) != 1) return out;
    EXPECT_EQ(try_event(out), 0);
    return out;
  }

 private:
  DaemonClient client_;
  Fd program_end_;
  uint32_t number_ = 0, withdrawn_ = 0;
};

class RdmaCmServer : public InNamespace {
 protected:
  void SetUp() override {
    InNamespace::SetUp();
    if (!IsSkipped()) start_with_device();
  }
};

TEST_F(RdmaCmServer, malformed_commands_are_refused_with_the_kernels_errno) {
  Channel channel;
  ASSERT_TRUE(channel.open());
  auto& client = channel.client();
  const std::byte few[4] = {};
  EXPECT_EQ(client.request(UROCE_MSG_COMMAND, few).status, EINVAL);
  EXPECT_EQ(channel.command(999, rdma_ucm_get_event{}), EINVAL);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_GET_OPTION, rdma_ucm_get_event{}), EINVAL);
  auto lying = channel.written(RDMA_USER_CM_CMD_LISTEN, few, 0);
  lying[4] = std::byte{200};  // `in`
  EXPECT_EQ(client.request(UROCE_MSG_COMMAND, lying).status, EINVAL);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, rdma_ucm_create_id{0, 0, RDMA_PS_TCP, 2, {}}), ENOSPC)
      << "no room for the answer";
  EXPECT_EQ(channel.create(1, 0x4711), 0u);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{4711, 0}), ENOENT);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{0xffffffff, 0}), ENOENT);
  rdma_ucm_event_resp none{};
  EXPECT_EQ(channel.try_event(none), EAGAIN);
  const uint32_t id = channel.create(1);
  for (uint32_t command = 1; command <= RDMA_USER_CM_CMD_JOIN_MCAST; ++command) {
    // Too short for any of them but GET_EVENT.
    if (command == RDMA_USER_CM_CMD_GET_EVENT) continue;
    EXPECT_NE(client.request(UROCE_MSG_COMMAND, channel.written(command, {}, 4)).status, 0) << command;
  }
  uint32_t reported;
  EXPECT_EQ(channel.destroy(id, reported), 0);
}

TEST_F(RdmaCmServer, identifiers_belong_to_their_channel_and_migrate) {
  Channel one, other;
  ASSERT_TRUE(one.open() && other.open());
  const uint32_t id = one.create(7);
  EXPECT_EQ(other.command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 0}), EINVAL);
  ASSERT_EQ(one.resolve(id, 7000), 0);
  ASSERT_TRUE(becomes_true([&] { return one.promised() == 1; }));
  rdma_ucm_migrate_resp told{};
  EXPECT_EQ(other.command(RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{0, id, 4095}, &told), ENOENT);
  ASSERT_EQ(other.command(RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{0, id, one.number()}, &told), 0);
  EXPECT_EQ(told.events_reported, 0u);
  EXPECT_EQ(other.withdrawn(), 1u) << "the byte on the old channel";
  const auto event = other.event();
  EXPECT_EQ(event.event, kAddressResolved);
  EXPECT_EQ(event.uid, 7u);
  rdma_ucm_event_resp none{};
  EXPECT_EQ(one.try_event(none), EAGAIN);
  uint32_t reported;
  EXPECT_EQ(one.destroy(id, reported), EINVAL);
  EXPECT_EQ(other.destroy(id, reported), 0);
  EXPECT_EQ(reported, 1u);
  EXPECT_EQ(other.destroy(id, reported), ENOENT);
}

TEST_F(RdmaCmServer, an_event_without_room_for_it_stays) {
  Channel channel;
  ASSERT_TRUE(channel.open());
  ASSERT_EQ(channel.resolve(channel.create(1), 7000), 0);
  ASSERT_TRUE(becomes_true([&] { return channel.promised() == 1; }));
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}), ENOSPC);
  EXPECT_EQ(channel.promised(), 2) << "the byte that was taken for it comes again";
}

TEST_F(RdmaCmServer, unread_events_end_with_their_identifier) {
  Channel channel;
  ASSERT_TRUE(channel.open());
  const uint32_t id = channel.create(1);
  ASSERT_EQ(channel.resolve(id, 7000), 0);
  uint32_t reported = 99;
  ASSERT_EQ(channel.destroy(id, reported), 0);
  EXPECT_EQ(reported, 0u);
  EXPECT_EQ(channel.withdrawn(), 1u);
}

TEST_F(RdmaCmServer, connects_over_the_wire_and_hears_of_the_end) {
  Channel server, client;
  ASSERT_TRUE(server.open() && client.open());
  ASSERT_EQ(server.listen(server.create(100), 7001), 0);
  const uint32_t id = client.begin_connecting(200, 7001);
  const auto request = server.event();
  ASSERT_EQ(request.event, kConnectRequest);
  EXPECT_EQ(request.uid, 100u);
  EXPECT_EQ(request.param.conn.qp_num, 0x4321u);
  ASSERT_EQ(server.accept(request.id, 101, true), 0);
  const auto response = client.event();
  ASSERT_EQ(response.event, kConnectResponse);
  EXPECT_EQ(response.param.conn.qp_num, 0x1234u);
  ASSERT_EQ(client.accept(id, 0, false), 0);
  const auto established = server.event();
  EXPECT_EQ(established.event, kEstablished);
  EXPECT_EQ(established.uid, 101u);

  client.close_file();  // as the kernel's close: everything of it ends
  const auto end = server.event();
  EXPECT_EQ(end.event, kDisconnected);
  EXPECT_EQ(end.uid, 101u);
  DaemonClient& gone = client.client();
  EXPECT_TRUE(becomes_true([&] { return gone.request(UROCE_MSG_COMMAND, {}).status == -1; }));
}

TEST_F(RdmaCmServer, requests_beyond_the_backlog_are_rejected) {
  Channel server, client;
  ASSERT_TRUE(server.open() && client.open());
  ASSERT_EQ(server.listen(server.create(1), 7002, 2), 0);
  for (uint64_t i = 0; i < 3; ++i) client.begin_connecting(10 + i, 7002);
  const auto refused = client.event();
  EXPECT_EQ(refused.event, kRejected);
  EXPECT_EQ(refused.uid, 12u);
  EXPECT_EQ(server.promised(), 2);  // the third came after them
  server.event();                   // one read: room for one more
  client.begin_connecting(20, 7002);
  EXPECT_TRUE(becomes_true([&] { return server.promised() == 2; }));
}

TEST_F(RdmaCmServer, a_listener_that_ends_rejects_who_waits) {
  Channel server, client;
  ASSERT_TRUE(server.open() && client.open());
  const uint32_t listener = server.create(1);
  ASSERT_EQ(server.listen(listener, 7003), 0);
  client.begin_connecting(2, 7003);
  ASSERT_TRUE(becomes_true([&] { return server.promised() == 1; }));
  uint32_t reported;
  ASSERT_EQ(server.destroy(listener, reported), 0);
  EXPECT_EQ(server.withdrawn(), 1u);
  EXPECT_EQ(client.event().event, kRejected);
}

TEST_F(RdmaCmServer, the_death_of_the_worker_is_a_removed_device) {
  Channel channel;
  ASSERT_TRUE(channel.open());
  const uint32_t listener = channel.create(5), fresh = channel.create(6);
  ASSERT_EQ(channel.listen(listener, 7004), 0);
  kill(worker(), SIGKILL);
  std::vector<uint64_t> told;
  for (int i = 0; i < 2; ++i) {
    const auto event = channel.event();
    EXPECT_EQ(event.event, kDeviceRemoval);
    told.push_back(event.uid);
  }
  EXPECT_EQ(told, (std::vector<uint64_t>{5, 6}));
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{fresh, 0}), EIO);
  uint32_t reported = 0;
  EXPECT_EQ(channel.destroy(listener, reported), 0);
  EXPECT_EQ(reported, 1u);
  // The channel itself goes on, and nobody holds the port any more.
  EXPECT_EQ(channel.listen(channel.create(8), 7004), 0);
}

TEST_F(RdmaCmServer, a_repeated_request_is_carried_out_once) {
  Channel channel;
  ASSERT_TRUE(channel.open());
  auto& client = channel.client();
  rdma_ucm_create_id request{};
  request.uid = 1;
  request.ps = RDMA_PS_TCP;
  const auto bytes = channel.written(RDMA_USER_CM_CMD_CREATE_ID, std::as_bytes(std::span(&request, 1)), 4);
  ASSERT_TRUE(client.send(UROCE_MSG_COMMAND, 1000, bytes));
  const auto first = client.receive();
  kill(worker(), SIGKILL);
  for (;;) {
    const auto message = client.receive();
    ASSERT_TRUE(message);
    if (message->header.type == UROCE_MSG_RESTARTED) break;
  }
  ASSERT_TRUE(client.send(UROCE_MSG_COMMAND, 1000, bytes));
  const auto again = client.receive();
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->payload, again->payload);
}

TEST_F(RdmaCmServer, a_removed_device_is_told_to_who_is_bound_to_it) {
  Channel channel;
  ASSERT_TRUE(channel.open());
  const uint32_t bound = channel.create(1), free = channel.create(2);
  ASSERT_EQ(channel.listen(bound, 7005), 0);
  ASSERT_TRUE(admin({{"command", "link-delete"}, {"device", "ur0"}}).value("ok", false));
  const auto event = channel.event();
  EXPECT_EQ(event.event, kDeviceRemoval);
  EXPECT_EQ(event.uid, 1u);
  EXPECT_EQ(channel.promised(), 0);
  rdma_ucm_query query{};
  query.id = bound;
  rdma_ucm_query_route_resp route{};
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY_ROUTE, query, &route), EIO);
  query.id = free;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY_ROUTE, query, &route), 0);
}

// MADs that no program would send, with a right ICRC: dropped and counted by the state machine, and the next
// connection works.
TEST_F(RdmaCmServer, forged_mads_disturb_nobody) {
  const Fd sender(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int discover = IP_PMTUDISC_PROBE;
  setsockopt(sender.get(), IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover);
  sockaddr_in own{}, to{};
  own.sin_family = to.sin_family = AF_INET;
  own.sin_addr.s_addr = to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(4791);
  ASSERT_EQ(bind(sender.get(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  socklen_t length = sizeof own;
  getsockname(sender.get(), reinterpret_cast<sockaddr*>(&own), &length);
  const auto address = wire::Gid::from_ipv4_be(htonl(INADDR_LOOPBACK));
  const wire::IcrcFlow flow(address, address, ntohs(own.sin_port), 4791);

  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::ud_send_only;
  packet.bth.dest_qpn = wire::Qpn(wire::kGsiQpn);
  packet.deth.source_qpn = wire::Qpn(wire::kGsiQpn);
  unsigned random = 4711;
  int not_for_qp1 = 0;
  for (int i = 0; i < 2000; ++i) {
    packet.deth.qkey = i % 7 == 0 ? 1 : wire::kGsiQkey;
    wire::Mad mad;
    wire::write_cm(wire::CmReq{}, static_cast<uint64_t>(i), mad);
    for (int byte = 0; byte < i % 40; ++byte) {
      random = random * 1103515245 + 12345;
      mad[random % mad.size()] = static_cast<std::byte>(random >> 16);
    }
    std::vector<std::byte> frame(64 + mad.size());
    const size_t headers = wire::write_headers(packet, frame.data());
    const size_t payload = i % 11 == 0 ? 128 : mad.size();
    not_for_qp1 += i % 7 == 0 || i % 11 == 0;
    std::memcpy(frame.data() + headers, mad.data(), payload);
    frame.resize(headers + payload + wire::kIcrcBytes);
    const std::span<const std::byte> covered(frame.data(), headers + payload);
    wire::store_icrc(frame.data() + covered.size(), flow.compute(covered, 0));
    sendto(sender.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  const pid_t before = worker();
  Channel server, client;
  ASSERT_TRUE(server.open() && client.open());
  ASSERT_EQ(server.listen(server.create(1), 7006), 0);
  client.begin_connecting(2, 7006);
  EXPECT_EQ(server.event().event, kConnectRequest);
  EXPECT_EQ(worker(), before);
  // They were heard at all.
  const auto counted = [&](const char* name) { return status()["connection_manager"].value(name, 0); };
  EXPECT_TRUE(becomes_true([&] { return counted("not_for_qp1") == not_for_qp1; })) << counted("not_for_qp1");
  EXPECT_GT(counted("received"), 1000);
  EXPECT_GT(counted("malformed"), 10);
}

}  // namespace
}  // namespace uroce::daemon
