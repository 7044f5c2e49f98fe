// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Devices: made, renamed, removed, kept in step with their netdevs.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>

#include "tests/uroced/daemon_client.h"
#include "tests/uroced/sandbox.h"

namespace uroce::daemon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint32_t kPortActive = 9, kPortError = 10, kGidChange = 18, kDeviceFatal = 8;

class Links : public InNamespace {
 protected:
  json add(const std::string& name, const std::string& netdev) {
    return admin({{"command", "link-add"}, {"device", name}, {"netdev", netdev}});
  }
  int ip(const std::string& words) {
    std::string output;
    const int status = run_program({"sh", "-c", "ip " + words}, &output);
    EXPECT_EQ(status, 0) << "ip " << words << ": " << output;
    return status;
  }
  json device(size_t i = 0) { return status()["devices"].at(i); }
  std::vector<std::string> addresses() {
    std::vector<std::string> list;
    const json now = device();
    for (const auto& gid : now["gids"]) list.push_back(gid["address"]);
    return list;
  }
  bool has_address(const std::string& address) {
    const auto list = addresses();
    return std::find(list.begin(), list.end(), address) != list.end();
  }
  std::string read(const std::string& path) {
    std::ifstream file(status()["tree"].get<std::string>() + "/" + path);
    std::string text;
    std::getline(file, text);
    return text;
  }
};

TEST_F(Links, errors_are_the_kernels_and_have_a_sentence) {
  start_with_device();
  ip("link add v0 type veth peer name v1");
  EXPECT_EQ(add("ur1", "nosuch").value("errno", 0), ENODEV);
  EXPECT_EQ(add("ur1", "lo").value("errno", 0), EEXIST);
  EXPECT_EQ(add("ur0", "v0").value("errno", 0), ENFILE);
  for (const char* name : {"", ".", "..", "a/b", "a b", "a:b", "a%d"})
    EXPECT_EQ(add(name, "v0").value("errno", 0), EINVAL) << name;
  EXPECT_EQ(add(std::string(64, 'x'), "v0").value("errno", 0), EINVAL);
  EXPECT_TRUE(add(std::string(63, 'x'), "v0").value("ok", false));
  EXPECT_EQ(admin({{"command", "link-delete"}, {"device", "ur9"}}).value("errno", 0), ENODEV);
}

TEST_F(Links, a_port_that_somebody_else_has_is_an_error_that_names_them) {
  ASSERT_EQ(autostart(), 0);
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  const int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);  // not even so
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const auto answer = add("ur0", "lo");
  EXPECT_EQ(answer.value("errno", 0), EADDRINUSE);
  EXPECT_NE(answer.value("error", "").find("process " + std::to_string(getpid())), std::string::npos)
      << answer;
}

TEST_F(Links, a_full_file_system_is_an_error_and_leaves_nothing) {
  std::string output;
  const int started = run_program(
      {"unshare", "-m", "sh", "-c",
       "exec 9< " UROCED "; for d in /run /tmp /dev/shm; do mount -t tmpfs -o size=256k none $d || exit 77; "
       "done; unset XDG_RUNTIME_DIR; cd /; exec /proc/self/fd/9 --autostart"},
      &output);
  if (started == 77) GTEST_SKIP() << "cannot mount here: " << output;
  ASSERT_EQ(started, 0) << output;
  const json fresh = status();
  const std::string tree = fresh["tree"];
  const std::string root = "/proc/" + std::to_string(fresh.value("pid", 0)) + "/root";

  const json answer = add("ur0", "lo");
  EXPECT_EQ(answer.value("errno", 0), ENOSPC) << answer;
  EXPECT_NE(answer.value("error", "").find("No space left"), std::string::npos) << answer;
  EXPECT_TRUE(status()["devices"].empty());
  for (const char* path :
       {"/sys/class/infiniband", "/sys/devices/platform", "/dev/infiniband", "/sys/class/infiniband_verbs"}) {
    size_t left = 0;
    for (const auto& entry : fs::directory_iterator(root + tree + path)) {
      const bool hosts = entry.is_symlink() && fs::read_symlink(entry.path()).is_absolute();
      const bool always = entry.path().filename() == "abi_version" || entry.path().filename() == "rdma_cm";
      left += !always && !hosts;
    }
    EXPECT_EQ(left, 0u) << path;
  }

  // With room for it the same daemon makes it.
  const std::string place = fs::path(tree).parent_path();
  ASSERT_EQ(run_program({"nsenter", "-t", std::to_string(fresh.value("pid", 0)), "-m", "mount", "-o",
                         "remount,size=16m", place},
                        &output),
            0)
      << output;
  EXPECT_TRUE(add("ur0", "lo").value("ok", false));
}

TEST_F(Links, loopback_has_its_two_gids_and_files) {
  start_with_device();
  EXPECT_EQ(addresses(), (std::vector<std::string>{"::1", "127.0.0.1"}));
  EXPECT_EQ(device()["state"], "ACTIVE");
  EXPECT_EQ(device()["active_mtu"], 4096);
  EXPECT_NE(device()["node_guid"], "0000:0000:0000:0000");
  EXPECT_EQ(read("sys/class/infiniband/ur0/ports/1/gids/1"), "0000:0000:0000:0000:0000:ffff:7f00:0001");
  EXPECT_EQ(read("sys/class/infiniband_verbs/uverbs0/ibdev"), "ur0");
}

TEST_F(Links, address_and_port_changes_are_followed_and_told_once) {
  ASSERT_EQ(autostart(), 0);
  ip("link add v0 type veth peer name v1");
  ip("link set v1 up");
  ip("link set v0 up");
  ip("addr add 10.1.0.1/24 dev v0");
  ASSERT_TRUE(add("ur0", "v0").value("ok", false));
  EXPECT_TRUE(has_address("10.1.0.1"));
  // The link-local address passes duplicate detection and is the default GID already: no change.
  ASSERT_TRUE(becomes_true([&] { return device()["state"] == "ACTIVE"; }));
  DaemonClient client;
  ASSERT_TRUE(client.connect() && client.open_device());

  ip("addr add 10.1.0.2/24 dev v0");
  EXPECT_EQ(client.next_event(), kGidChange);
  EXPECT_TRUE(has_address("10.1.0.2"));
  ip("addr del 10.1.0.2/24 dev v0");
  EXPECT_EQ(client.next_event(), kGidChange);
  EXPECT_FALSE(has_address("10.1.0.2"));

  ip("link set v1 down");
  EXPECT_EQ(client.next_event(), kPortError);
  EXPECT_TRUE(becomes_true([&] { return read("sys/class/infiniband/ur0/ports/1/state") == "1: DOWN"; }));
  EXPECT_EQ(device()["counters"]["link_downed"], 1);
  ip("link set v1 up");
  EXPECT_EQ(client.next_event(), kPortActive);
  EXPECT_EQ(client.next_event(300), 0u) << "once each";

  ip("link set v0 mtu 9000");
  EXPECT_TRUE(becomes_true([&] { return device()["active_mtu"] == 4096; }));
}

TEST_F(Links, the_default_gid_follows_the_mac) {
  ASSERT_EQ(autostart(), 0);
  ip("link add v0 type veth peer name v1");
  ip("link set v0 address 02:11:22:33:44:55");
  ASSERT_TRUE(add("ur0", "v0").value("ok", false));
  EXPECT_EQ(device()["gids"].at(0)["address"], "fe80::11:22ff:fe33:4455");
  EXPECT_EQ(device()["node_guid"], "0011:22ff:fe33:4455");
  ip("link set v0 address 02:aa:bb:cc:dd:ee");
  EXPECT_TRUE(becomes_true([&] { return has_address("fe80::aa:bbff:fecc:ddee"); }));
  EXPECT_FALSE(has_address("fe80::11:22ff:fe33:4455"));
}

TEST_F(Links, vlan_addresses_belong_to_the_base_device) {
  ASSERT_EQ(autostart(), 0);
  ip("link add v0 type veth peer name v1");
  std::string output;
  if (run_program({"ip", "link", "add", "link", "v0", "name", "v0.7", "type", "vlan", "id", "7"}, &output) !=
      0) {
    GTEST_SKIP() << "no VLANs here: " << output;
  }
  ip("addr add 10.7.0.1/24 dev v0.7");
  ASSERT_TRUE(add("ur0", "v0").value("ok", false));
  EXPECT_TRUE(has_address("10.7.0.1"));
}

TEST_F(Links, a_netdev_that_goes_takes_its_link_along) {
  ASSERT_EQ(autostart(), 0);
  ip("link add v0 type veth peer name v1");
  ASSERT_TRUE(add("ur0", "v0").value("ok", false));
  DaemonClient client, data;
  ASSERT_TRUE(client.connect() && client.open_device() && data.connect());
  ASSERT_EQ(data.hello(UROCE_ROLE_BROKER, client.slot(), client.cookie()).status, 0);
  const uint32_t pd = client.alloc_pd();
  ip("link del v0");
  EXPECT_EQ(client.next_event(), kDeviceFatal);
  const auto message = data.receive();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->header.type, UROCE_MSG_GONE);
  EXPECT_EQ(client.alloc_pd(), 0u);
  EXPECT_EQ(client.last().status, EIO);
  EXPECT_TRUE(client.gone());
  EXPECT_EQ(client.command(IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{pd}), 0)
      << "taking apart is possible";
  EXPECT_EQ(status()["devices"].size(), 0u);
  EXPECT_TRUE(fs::is_empty(status()["tree"].get<std::string>() + "/sys/class/infiniband"));
}

TEST_F(Links, deleted_and_made_again) {
  start_with_device();
  const auto first = device();
  ASSERT_TRUE(admin({{"command", "link-delete"}, {"device", "ur0"}}).value("ok", false));
  ASSERT_TRUE(add("ur0", "lo").value("ok", false));
  EXPECT_NE(device()["index"], first["index"]) << "an index is not used twice";
  EXPECT_EQ(device()["node_guid"], first["node_guid"]);
}

TEST_F(Links, several_share_the_port) {
  start_with_device();
  ip("link add v0 type veth peer name v1");
  ASSERT_TRUE(add("ur1", "v0").value("ok", false));
  ASSERT_TRUE(add("ur2", "v1").value("ok", false));
  EXPECT_EQ(status()["devices"].size(), 3u);
  DaemonClient a, b;
  ASSERT_TRUE(a.connect() && a.open_device(0) && b.connect() && b.open_device(2));
  EXPECT_NE(a.slot(), b.slot());
}

TEST_F(Links, settings_show_and_wrong_ones_change_nothing) {
  start_with_device();
  const auto set = [&](json settings) {
    settings["command"] = "link-set";
    settings["device"] = "ur0";
    return admin(settings).value("ok", false);
  };
  ASSERT_TRUE(set({{"transport", "udp"}, {"min-timeout-ms", 250}}));
  EXPECT_FALSE(set({{"transport", "pigeon"}}));
  EXPECT_FALSE(set({{"min-timeout-ms", -1}}));
  EXPECT_FALSE(set({{"transport", "auto"}, {"min-timeout-ms", 60'001}}));
  EXPECT_FALSE(set({{"transport", "xdp"}, {"min-timeout-ms", 1}}));
  EXPECT_EQ(device()["transport"], "udp");
  EXPECT_EQ(device()["min_timeout_ms"], 250);
}

}  // namespace
}  // namespace uroce::daemon
