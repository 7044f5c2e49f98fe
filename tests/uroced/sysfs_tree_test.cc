// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/sysfs_tree.h"
#include "kmod-shim/uapi/uroce_abi.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace uroce::daemon {
namespace {

namespace fs = std::filesystem;

class SysfsTreeTest : public ::testing::Test {
 protected:
  SysfsTreeTest() {
    char path[] = "/tmp/uroced-tree-XXXXXX";
    root = mkdtemp(path);
    gids[0].ifindex = 2;
    gids[0].gid[0] = 0xfe;
    gids[0].gid[1] = 0x80;
    gids[0].gid[15] = 1;
    device.index = 3;
    device.name = "ur0";
    device.uverbs_minor = 1;
    device.node_guid_be = 0x0102030405060708;
    device.firmware = "0.1";
    device.netdev = "eth0";
    device.up = true;
    device.mtu = 3;
    device.gids = gids;
    device.gid_netdevs.resize(gids.size());
    device.gid_netdevs[0] = "eth0";
  }
  ~SysfsTreeTest() override { fs::remove_all(root); }

  std::string read(const std::string& path) const {
    std::ifstream file(root + "/" + path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  bool exists(const std::string& path) const { return fs::exists(root + "/" + path); }

  std::string root;
  std::array<uroce_gid_entry, UROCE_GID_TABLE_LEN> gids{};
  DeviceFacts device;
};

TEST_F(SysfsTreeTest, a_device_has_what_libibverbs_reads) {
  SysfsTree tree(root, true);
  tree.write_device(device);
  EXPECT_EQ(read("sys/class/infiniband_verbs/abi_version"), "6\n");
  EXPECT_EQ(read("sys/class/infiniband_verbs/uverbs1/ibdev"), "ur0\n");
  EXPECT_EQ(read("sys/class/infiniband_verbs/uverbs1/dev"), "231:193\n");
  EXPECT_EQ(read("sys/class/infiniband_verbs/uverbs1/abi_version"), "1\n");
  EXPECT_EQ(read("sys/class/infiniband_verbs/uverbs1/device/modalias"), "platform:uroce\n");
  EXPECT_EQ(read("sys/class/infiniband/ur0/device/modalias"), "platform:uroce\n");
  EXPECT_EQ(read("sys/class/infiniband/ur0/device/infiniband_verbs/uverbs1/dev"), "231:193\n");
  EXPECT_EQ(read("sys/class/infiniband/ur0/node_type"), "1: CA\n");
  EXPECT_EQ(read("sys/class/infiniband/ur0/parent"), "eth0\n");
  EXPECT_TRUE(exists("sys/class/infiniband/ur0/device/net/eth0"));
  EXPECT_TRUE(exists("dev/infiniband/uverbs1"));
  EXPECT_TRUE(exists("dev/infiniband/rdma_cm"));
}

TEST_F(SysfsTreeTest, without_a_connection_manager_its_files_are_absent) {
  SysfsTree tree(root, false);
  EXPECT_TRUE(exists("dev/infiniband"));
  EXPECT_FALSE(exists("dev/infiniband/rdma_cm"));
  EXPECT_FALSE(exists("sys/class/misc/rdma_cm"));
}

TEST_F(SysfsTreeTest, the_port_reads_as_the_kernels) {
  SysfsTree tree(root, true);
  tree.write_device(device);
  const std::string port = "sys/class/infiniband/ur0/ports/1/";
  EXPECT_EQ(read(port + "state"), "4: ACTIVE\n");
  EXPECT_EQ(read(port + "phys_state"), "5: LinkUp\n");
  EXPECT_EQ(read(port + "pkeys/0"), "0xffff\n");
  EXPECT_EQ(read(port + "gids/0"), "fe80:0000:0000:0000:0000:0000:0000:0001\n");
  EXPECT_EQ(read(port + "gid_attrs/types/0"), "RoCE v2\n");
  EXPECT_EQ(read(port + "gid_attrs/ndevs/0"), "eth0\n");
  EXPECT_EQ(read(port + "gids/127"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(read(port + "gid_attrs/types/127"), "IB/RoCE v1\n");
  EXPECT_FALSE(exists(port + "gid_attrs/ndevs/127"));
}

TEST_F(SysfsTreeTest, changes_leave_the_devices_time_stamp_alone) {
  SysfsTree tree(root, true);
  tree.write_device(device);
  tree.write_counters(device, {});
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((root + "/sys/class/infiniband/ur0").c_str(), &before), 0);
  device.up = false;
  device.netdev = "renamed0";
  gids[0] = {};
  gids[1].ifindex = 2;
  device.gid_netdevs[1] = "renamed0";
  tree.write_device(device);
  CounterValues counters{};
  counters[UROCE_CNT_SENT_BYTES] = 4000;
  tree.write_counters(device, counters);
  ASSERT_EQ(stat((root + "/sys/class/infiniband/ur0").c_str(), &after), 0);
  EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(read("sys/class/infiniband/ur0/parent"), "renamed0\n");
  EXPECT_EQ(read("sys/class/infiniband/ur0/ports/1/state"), "1: DOWN\n");
  EXPECT_EQ(read("sys/class/infiniband/ur0/ports/1/counters/port_xmit_data"), "1000\n");
  EXPECT_EQ(read("sys/class/infiniband/ur0/ports/1/hw_counters/sent_bytes"), "4000\n");
  EXPECT_FALSE(exists("sys/class/infiniband/ur0/ports/1/gid_attrs/ndevs/0"));
  EXPECT_FALSE(exists("sys/class/infiniband/ur0/device/net/eth0"));
}

TEST_F(SysfsTreeTest, a_second_worker_finds_and_changes_the_files_of_the_first) {
  { SysfsTree(root, true).write_device(device); }
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((root + "/sys/class/infiniband/ur0").c_str(), &before), 0);
  SysfsTree tree(root, true);
  device.up = false;
  EXPECT_EQ(tree.write_device(device).text, "");
  ASSERT_EQ(stat((root + "/sys/class/infiniband/ur0").c_str(), &after), 0);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(read("sys/class/infiniband/ur0/ports/1/state"), "1: DOWN\n");
}

TEST_F(SysfsTreeTest, rename_and_remove) {
  SysfsTree tree(root, true);
  tree.write_device(device);
  device.name = "roce7";
  EXPECT_EQ(tree.rename_device(device, "ur0").text, "");
  EXPECT_FALSE(exists("sys/class/infiniband/ur0"));
  EXPECT_EQ(read("sys/class/infiniband_verbs/uverbs1/ibdev"), "roce7\n");
  EXPECT_EQ(read("sys/class/infiniband/roce7/node_type"), "1: CA\n");
  EXPECT_EQ(tree.remove_device(device).text, "");
  EXPECT_TRUE(fs::is_empty(root + "/sys/class/infiniband"));
  EXPECT_TRUE(fs::is_empty(root + "/sys/devices/platform"));
  EXPECT_FALSE(exists("dev/infiniband/uverbs1"));
}

TEST_F(SysfsTreeTest, host_devices_appear_as_links_and_go_with_them) {
  const std::string host = root + "-host";
  fs::create_directories(host + "/sys/class/infiniband/mlx5_0");
  fs::create_directories(host + "/dev/infiniband");
  std::ofstream(host + "/dev/infiniband/uverbs0") << "";
  {
    SysfsTree tree(root, true);
    tree.write_device(device);
    tree.link_host_devices(host + "/sys", host + "/dev");
    EXPECT_TRUE(exists("sys/class/infiniband/mlx5_0"));
    EXPECT_TRUE(exists("dev/infiniband/uverbs0"));
    EXPECT_TRUE(fs::is_symlink(root + "/dev/infiniband/uverbs0"));
    EXPECT_FALSE(fs::is_symlink(root + "/dev/infiniband/uverbs1"));
  }
  SysfsTree tree(root, true);
  tree.link_host_devices(host + "/sys", host + "/dev");
  fs::remove_all(host + "/sys/class/infiniband/mlx5_0");
  tree.link_host_devices(host + "/sys", host + "/dev");
  EXPECT_FALSE(fs::exists(fs::symlink_status(root + "/sys/class/infiniband/mlx5_0")));
  EXPECT_TRUE(exists("sys/class/infiniband/ur0"));
  fs::remove_all(host);
}

TEST_F(SysfsTreeTest, trouble_is_told_not_thrown_and_made_good_later) {
  fs::create_directories(root + "/sys");
  std::ofstream(root + "/sys/class") << "in the way";
  SysfsTree tree(root, true);
  const auto failure = tree.write_device(device);
  EXPECT_EQ(failure.error, ENOTDIR);
  EXPECT_NE(failure.text.find("sys/class/infiniband"), std::string::npos) << failure.text;
  fs::remove(root + "/sys/class");
  EXPECT_EQ(tree.write_device(device).text, "");
  EXPECT_EQ(read("sys/class/infiniband_verbs/abi_version"), "6\n");
  EXPECT_EQ(read("sys/class/infiniband_verbs/uverbs1/ibdev"), "ur0\n");
}

}  // namespace
}  // namespace uroce::daemon
