// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A device opened through the daemon as it runs: context, data path, limits.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"

namespace uroce::daemon {
namespace {

class Uverbs : public InNamespace {
 protected:
  void SetUp() override {
    InNamespace::SetUp();
    if (!IsSkipped()) start_with_device();
  }
  nlohmann::json context_of(uint32_t slot) {
    for (const auto& context : status()["contexts"].get<std::vector<nlohmann::json>>()) {
      if (context["slot"] == slot) return context;
    }
    return {};
  }
  static std::string sentence_of(const DaemonClient::Answer& answer) {
    return {reinterpret_cast<const char*>(answer.payload.data()), answer.payload.size()};
  }
  size_t daemon_descriptors(pid_t pid) {
    size_t n = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd"))
      n++;
    return n;
  }
};

TEST_F(Uverbs, a_context_shows_in_status_and_goes_with_its_connection) {
  DaemonClient client;
  ASSERT_TRUE(client.connect() && client.open_device());
  const uint32_t pd = client.alloc_pd(), cq = client.create_cq();
  EXPECT_EQ(client.create_qp(pd, cq).qpn >> 14, client.slot());
  const auto context = context_of(client.slot());
  EXPECT_EQ(context["pid"], getpid());
  EXPECT_EQ(context["objects"]["qp"], 1) << context;
  client.disconnect();
  EXPECT_TRUE(becomes_true([&] { return context_of(client.slot()).is_null(); }));
}

TEST_F(Uverbs, two_contexts_have_two_slots) {
  DaemonClient a, b;
  ASSERT_TRUE(a.connect() && a.open_device() && b.connect() && b.open_device());
  EXPECT_NE(a.slot(), b.slot());
  const uint32_t pd = a.alloc_pd();
  ib_uverbs_dealloc_pd request{.pd_handle = pd};
  EXPECT_EQ(b.command(IB_USER_VERBS_CMD_DEALLOC_PD, request), EINVAL);
  EXPECT_EQ(a.command(IB_USER_VERBS_CMD_DEALLOC_PD, request), 0);
}

TEST_F(Uverbs, commands_before_get_context_and_nonsense_are_refused_and_harmless) {
  DaemonClient client;
  ASSERT_TRUE(client.connect());
  ASSERT_EQ(client.hello(UROCE_ROLE_UVERBS, 0).status, 0);
  EXPECT_EQ(client.alloc_pd(), 0u);
  EXPECT_EQ(client.last().status, EINVAL);
  const std::vector<std::byte> nothing;
  EXPECT_EQ(client.request(UROCE_MSG_COMMAND, nothing).status, EINVAL);
  const std::vector<std::byte> zeros(60'000);
  EXPECT_NE(client.request(UROCE_MSG_COMMAND, zeros).status, 0);
  DaemonClient other;
  ASSERT_TRUE(other.connect() && other.open_device());
}

TEST_F(Uverbs, a_connection_has_one_role_and_one_device) {
  DaemonClient client;
  ASSERT_TRUE(client.connect() && client.open_device());
  EXPECT_EQ(client.hello(UROCE_ROLE_ADMIN).status, EINVAL);
  DaemonClient again;
  ASSERT_TRUE(again.connect() && again.open_device());
  EXPECT_EQ(again.hello(UROCE_ROLE_UVERBS, 1).status, EINVAL);
}

TEST_F(Uverbs, the_broker_hands_out_a_receive_socket_and_two_pages) {
  DaemonClient client, data;
  ASSERT_TRUE(client.connect() && client.open_device() && data.connect());
  const auto grant = data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie());
  ASSERT_EQ(grant.status, 0) << grant.reply.text;
  ASSERT_EQ(grant.descriptors.size(), 3u);

  sockaddr_in6 name{};
  socklen_t bytes = sizeof name;
  ASSERT_EQ(getsockname(grant.descriptors[0].get(), reinterpret_cast<sockaddr*>(&name), &bytes), 0);
  EXPECT_EQ(ntohs(name.sin6_port), 4791);

  struct stat st {};
  ASSERT_EQ(fstat(grant.descriptors[1].get(), &st), 0);
  EXPECT_EQ(st.st_size, static_cast<off_t>(sizeof(uroce_slot_page)));
  EXPECT_LT(ftruncate(grant.descriptors[1].get(), 0), 0) << "the daemon reads it and must not fault";

  const auto* page = static_cast<const uroce_device_page*>(
      mmap(nullptr, sizeof(uroce_device_page), PROT_READ, MAP_SHARED, grant.descriptors[2].get(), 0));
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(page->port_state, 4u);
  EXPECT_EQ(page->sequence % 2, 0u);
  EXPECT_EQ(page->gids[1].gid[15], 1);
  EXPECT_EQ(page->min_timeout_ms, 100u);
  EXPECT_TRUE(admin({{"command", "link-set"}, {"device", "ur0"}, {"transport", "udp"}, {"min-timeout-ms", 7}})
                  .value("ok", false));
  EXPECT_EQ(page->transport, static_cast<uint32_t>(UROCE_TRANSPORT_UDP));
  EXPECT_EQ(page->min_timeout_ms, 7u);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, grant.descriptors[2].get(), 0),
            MAP_FAILED);
  munmap(const_cast<uroce_device_page*>(page), sizeof *page);
}

// UDP to the port is steered by the QPN's slot.
TEST_F(Uverbs, packets_reach_the_socket_of_their_slot) {
  DaemonClient clients[3], data[3];
  Fd sockets[3];
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(clients[i].connect() && clients[i].open_device() && data[i].connect());
    auto grant = data[i].hello(UROCE_ROLE_BROKER, clients[i].slot(), clients[i].cookie());
    ASSERT_EQ(grant.status, 0);
    sockets[i] = std::move(grant.descriptors[0]);
  }
  const Fd sender(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 3; ++i) {
    const uint32_t qpn = clients[i].slot() << 14 | 5;
    uint8_t bth[16] = {4,
                       0,
                       0xff,
                       0xff,
                       0,
                       static_cast<uint8_t>(qpn >> 16),
                       static_cast<uint8_t>(qpn >> 8),
                       static_cast<uint8_t>(qpn)};
    ASSERT_EQ(sendto(sender.get(), bth, sizeof bth, 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(sizeof bth));
    uint8_t got[64];
    ASSERT_EQ(recv(sockets[i].get(), got, sizeof got, 0), static_cast<ssize_t>(sizeof bth)) << i;
    EXPECT_EQ(std::memcmp(got, bth, sizeof bth), 0);
    for (const Fd& other : sockets) EXPECT_LT(recv(other.get(), got, sizeof got, MSG_DONTWAIT), 0);
  }
}

TEST_F(Uverbs, relayed_packets_reach_the_other_slot) {
  DaemonClient clients[2], data[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(clients[i].connect() && clients[i].open_device() && data[i].connect());
    ASSERT_EQ(data[i].hello(UROCE_ROLE_BROKER, clients[i].slot(), clients[i].cookie()).status, 0);
  }
  struct {
    uroce_relay relay;
    char packet[32];
  } sent{};
  sent.relay.slot = clients[1].slot();
  std::snprintf(sent.packet, sizeof sent.packet, "packet");
  ASSERT_TRUE(data[0].send(UROCE_MSG_RELAY, 0, std::as_bytes(std::span(&sent, 1))));
  const auto got = data[1].receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->header.type, UROCE_MSG_RELAY);
  ASSERT_EQ(got->payload.size(), sizeof sent);
  EXPECT_EQ(std::memcmp(got->payload.data(), &sent, sizeof sent), 0);
  // To nobody, to oneself, too short: counted.
  sent.relay.slot = 500;
  data[0].send(UROCE_MSG_RELAY, 0, std::as_bytes(std::span(&sent, 1)));
  sent.relay.slot = ~0u;
  data[0].send(UROCE_MSG_RELAY, 0, std::as_bytes(std::span(&sent, 1)));
  sent.relay.slot = clients[0].slot();
  data[0].send(UROCE_MSG_RELAY, 0, std::as_bytes(std::span(&sent, 1)));
  data[0].send(UROCE_MSG_RELAY, 0, std::as_bytes(std::span(&sent.relay, 1)));
  EXPECT_TRUE(becomes_true([&] {
    const auto told = status()["relay"];
    return told["relayed"] == 1 && told["no_such_slot"] == 3 && told["malformed"] == 1;
  })) << status()["relay"];
}

TEST_F(Uverbs, removing_the_device_ends_its_contexts_and_keeps_their_numbers_apart) {
  DaemonClient client, data;
  ASSERT_TRUE(client.connect() && client.open_device() && data.connect());
  ASSERT_EQ(data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie()).status, 0);
  const uint32_t pd = client.alloc_pd();
  ASSERT_TRUE(admin({{"command", "link-delete"}, {"device", "ur0"}}).value("ok", false));
  EXPECT_EQ(client.next_event(), 8u) << "DEVICE_FATAL";
  const auto told = data.receive();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->header.type, UROCE_MSG_GONE);
  ASSERT_TRUE(admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "lo"}}).value("ok", false));
  EXPECT_EQ(status()["devices"].at(0)["uverbs"], "uverbs1") << "uverbs0 is still open";
  EXPECT_EQ(client.alloc_pd(), 0u);
  EXPECT_EQ(client.last().status, EIO);
  EXPECT_TRUE(client.gone());
  ib_uverbs_dealloc_pd request{.pd_handle = pd};
  EXPECT_EQ(client.command(IB_USER_VERBS_CMD_DEALLOC_PD, request), 0);
}

TEST_F(Uverbs, as_many_contexts_as_there_are_descriptors_and_the_limit_is_named) {
  admin({{"command", "stop"}});
  ASSERT_TRUE(becomes_true([&] { return !DaemonClient().connect(); }));
  ASSERT_EQ(run_program({"sh", "-c", "ulimit -n 300; exec " UROCED " --autostart"}), 0);
  ASSERT_TRUE(admin({{"command", "link-add"}, {"device", "ur0"}, {"netdev", "lo"}}).value("ok", false));
  std::vector<std::pair<DaemonClient, DaemonClient>> clients(100);
  size_t opened = 0;
  for (auto& [client, data] : clients) {
    ASSERT_TRUE(client.connect());
    if (!client.open_device()) break;
    ASSERT_TRUE(data.connect());
    ASSERT_EQ(data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie()).status, 0);
    ++opened;
  }
  EXPECT_GE(opened, (300 - 100) / UROCE_DAEMON_CONTEXT_FDS);
  ASSERT_LT(opened, clients.size());
  DaemonClient& late = clients[opened].first;
  EXPECT_EQ(late.last().status, ENOMEM);
  EXPECT_NE(sentence_of(late.last()).find("may have 300 descriptors"), std::string::npos)
      << sentence_of(late.last());
  EXPECT_TRUE(status().value("ok", false)) << "it can still be asked";
  late.disconnect();
  // Their receive sockets stay, and whoever asks takes descriptors too: one of them might not be enough.
  for (size_t i = 0; i < 3; ++i) {
    clients[i].first.disconnect();
    clients[i].second.disconnect();
  }
  EXPECT_TRUE(becomes_true([&] {
    DaemonClient again;
    return again.connect() && again.open_device();
  })) << "contexts that end make room";
}

TEST_F(Uverbs, as_many_contexts_as_there_are_slots_and_all_come_back) {
  const pid_t worker_pid = worker();
  const size_t before = daemon_descriptors(worker_pid), kept_before = daemon_descriptors(keeper());
  std::vector<DaemonClient> clients(UROCE_SLOT_LAST);
  for (auto& client : clients) ASSERT_TRUE(client.connect() && client.open_device());
  DaemonClient late;
  ASSERT_TRUE(late.connect());
  // As with the kernel, what is used up shows when the open file is to become a context.
  EXPECT_FALSE(late.open_device());
  EXPECT_EQ(late.last().status, ENOMEM);
  EXPECT_NE(sentence_of(late.last()).find("all 1022 contexts"), std::string::npos)
      << sentence_of(late.last());

  std::set<uint32_t> listed;
  for (auto answer = status();;
       answer = admin({{"command", "status"}, {"next_context", answer["next_context"]}})) {
    for (const auto& context : answer["contexts"].get<std::vector<nlohmann::json>>())
      listed.insert(context["slot"].get<uint32_t>());
    if (!answer.contains("next_context")) break;
  }
  EXPECT_EQ(listed.size(), static_cast<size_t>(UROCE_SLOT_LAST));

  clients.clear();
  late.disconnect();
  // The receive sockets stay, one per slot in both processes; nothing else does.
  EXPECT_TRUE(becomes_true([&] {
    return daemon_descriptors(worker_pid) <= before + UROCE_SLOT_LAST &&
           daemon_descriptors(keeper()) <= kept_before + UROCE_SLOT_LAST;
  })) << daemon_descriptors(worker_pid)
      << " from " << before << ", " << daemon_descriptors(keeper()) << " from " << kept_before;
  DaemonClient again;
  EXPECT_TRUE(again.connect() && again.open_device());
  EXPECT_EQ(worker(), worker_pid);
}

}  // namespace
}  // namespace uroce::daemon
