// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <rdma/rdma_user_cm.h>
#include <sys/sysmacros.h>

#include "kmod-shim/uapi/uroce_abi.h"
#include "tests/netlink/rdma_fixture.h"

namespace uroce::netlink {
namespace {

class DeviceCommands : public RdmaCommands {};

TEST_F(DeviceCommands, dump_lists_every_device_with_what_libibverbs_demands) {
  const auto& devices = dump(RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP));
  ASSERT_EQ(devices.size(), 2u);
  const AttributeList first = devices[0].attributes();
  EXPECT_EQ(
      first.types(),
      (std::vector<unsigned>{RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME, RDMA_NLDEV_ATTR_PORT_INDEX,
                             RDMA_NLDEV_ATTR_CAP_FLAGS, RDMA_NLDEV_ATTR_FW_VERSION, RDMA_NLDEV_ATTR_NODE_GUID,
                             RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, RDMA_NLDEV_ATTR_DEV_NODE_TYPE,
                             RDMA_NLDEV_ATTR_DEV_DIM, RDMA_NLDEV_ATTR_DEV_PROTOCOL}));
  EXPECT_EQ(first.number(RDMA_NLDEV_ATTR_DEV_INDEX), kFirst);
  EXPECT_EQ(first.text(RDMA_NLDEV_ATTR_DEV_NAME), "ur0");
  EXPECT_EQ(first.number(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  EXPECT_EQ(first.number(RDMA_NLDEV_ATTR_CAP_FLAGS), 0x1122334455667788u);
  EXPECT_EQ(first.text(RDMA_NLDEV_ATTR_FW_VERSION), "0.1.0");
  EXPECT_EQ(first.number(RDMA_NLDEV_ATTR_NODE_GUID), 0x0102030405060708u) << "host order";
  EXPECT_EQ(first.number(RDMA_NLDEV_ATTR_DEV_NODE_TYPE), 1u);
  EXPECT_EQ(first.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL), "roce");
  EXPECT_EQ(devices[1].attributes().text(RDMA_NLDEV_ATTR_DEV_NAME), "ur1");
}

TEST_F(DeviceCommands, dump_without_devices_is_only_done) {
  model_.devices_.clear();
  EXPECT_TRUE(dump(RequestBytes(RDMA_NLDEV_CMD_GET, NLM_F_DUMP)).empty());
}

// As a kernel's would be, byte for byte: header, DEV_INDEX 3, DEV_NAME "ur0", PORT_INDEX 1, PORT_STATE 4,
// PHYS_STATE 5, NDEV_INDEX 7, NDEV_NAME "eth0".
TEST_F(DeviceCommands, golden_link) {
  conversation_.on_datagram(RequestBytes(RDMA_NLDEV_CMD_PORT_GET)
                                .u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)
                                .u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
                                .bytes(),
                            true);
  const Bytes* datagram = conversation_.next();
  ASSERT_NE(datagram, nullptr);
  const Bytes golden = {
      84, 0, 0,  0, 1,   0x14, 0,   0,   77, 0, 0, 0, 0xe1, 0x10, 0, 0,  //
      8,  0, 1,  0, 3,   0,    0,   0,                                   //
      8,  0, 2,  0, 'u', 'r',  '0', 0,                                   //
      8,  0, 3,  0, 1,   0,    0,   0,                                   //
      5,  0, 12, 0, 4,   0,    0,   0,                                   //
      5,  0, 13, 0, 5,   0,    0,   0,                                   //
      8,  0, 50, 0, 7,   0,    0,   0,                                   //
      9,  0, 51, 0, 'e', 't',  'h', '0', 0,  0, 0, 0,
  };
  Bytes expected = golden;
  expected[0] = static_cast<uint8_t>(expected.size());
  EXPECT_EQ(*datagram, expected);
}

TEST_F(DeviceCommands, one_device) {
  const Message& message = answer(RequestBytes(RDMA_NLDEV_CMD_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kSecond));
  EXPECT_EQ(message.command(), RDMA_NLDEV_CMD_GET);
  EXPECT_EQ(message.attributes().text(RDMA_NLDEV_ATTR_DEV_NAME), "ur1");
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_GET)), EINVAL);
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_GET).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kNobody)), EINVAL);
}

TEST_F(DeviceCommands, rename_reaches_the_daemon) {
  const auto request = [] {
    return RequestBytes(RDMA_NLDEV_CMD_SET, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  };
  EXPECT_EQ(error(request().text(RDMA_NLDEV_ATTR_DEV_NAME, "new")), 0);
  EXPECT_EQ(model_.told_, "rename 3 new");
  model_.error_ = EEXIST;
  model_.message_ = "the name is taken";
  EXPECT_EQ(error(request().text(RDMA_NLDEV_ATTR_DEV_NAME, "ur1")), EEXIST);
  EXPECT_EQ(explanation_, "the name is taken");
  EXPECT_EQ(error(request().text(RDMA_NLDEV_ATTR_DEV_NAME, "")), EINVAL);
  EXPECT_EQ(error(request().text(RDMA_NLDEV_ATTR_DEV_NAME, std::string(64, 'x'))), EINVAL);
}

TEST_F(DeviceCommands, other_settings_are_refused_with_a_reason) {
  const auto request = [] {
    return RequestBytes(RDMA_NLDEV_CMD_SET, NLM_F_ACK).u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst);
  };
  EXPECT_EQ(error(request().u32(RDMA_NLDEV_NET_NS_FD, 5)), EOPNOTSUPP);
  EXPECT_NE(explanation_, "");
  EXPECT_EQ(error(request().u8(RDMA_NLDEV_ATTR_DEV_DIM, 1)), EOPNOTSUPP);
  EXPECT_NE(explanation_, "");
  EXPECT_EQ(error(request().u8(RDMA_NLDEV_ATTR_DEV_DIM, 0)), 0);
  EXPECT_EQ(error(request().u8(RDMA_NLDEV_ATTR_DEV_DIM, 2)), EINVAL);
}

TEST_F(DeviceCommands, chardev_of_uverbs_names_our_driver) {
  const Message& message = answer(RequestBytes(RDMA_NLDEV_CMD_GET_CHARDEV)
                                      .u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)
                                      .text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs"));
  const AttributeList list = message.attributes();
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID), UROCE_DRIVER_ID);
  EXPECT_EQ(list.raw(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID).size(), 4u);
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_CHARDEV), makedev(231, 194));
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_CHARDEV_ABI), static_cast<uint64_t>(UROCE_ABI_VERSION));
  EXPECT_EQ(list.text(RDMA_NLDEV_ATTR_CHARDEV_NAME), "uverbs2");
}

TEST_F(DeviceCommands, chardev_of_the_connection_manager) {
  const auto request = RequestBytes(RDMA_NLDEV_CMD_GET_CHARDEV).text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "rdma_cm");
  const AttributeList list = answer(request).attributes();
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_CHARDEV), makedev(10, 58));
  EXPECT_EQ(list.number(RDMA_NLDEV_ATTR_CHARDEV_ABI), static_cast<uint64_t>(RDMA_USER_CM_ABI_VERSION));
  EXPECT_EQ(list.text(RDMA_NLDEV_ATTR_CHARDEV_NAME), "rdma_cm");
  EXPECT_FALSE(list.has(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID));
  model_.has_rdma_cm_ = false;
  EXPECT_EQ(error(request), ENOENT);
}

TEST_F(DeviceCommands, chardev_errors_are_the_kernels) {
  const auto request = [](const char* type) {
    return RequestBytes(RDMA_NLDEV_CMD_GET_CHARDEV).text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, type);
  };
  EXPECT_EQ(error(RequestBytes(RDMA_NLDEV_CMD_GET_CHARDEV)), EINVAL);
  EXPECT_EQ(error(request("umad").u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst).u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)),
            ENOENT);
  EXPECT_EQ(error(request("uverbs")), EOPNOTSUPP);
  EXPECT_EQ(error(request("uverbs").u32(RDMA_NLDEV_ATTR_DEV_INDEX, kNobody)), EINVAL);
  EXPECT_EQ(
      error(request("uverbs").u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst).u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)),
      EINVAL);
  EXPECT_EQ(error(request("uverbs").u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)), EINVAL);
  EXPECT_EQ(error(request("rdma_cm").u32(RDMA_NLDEV_ATTR_DEV_INDEX, kFirst)), EOPNOTSUPP);
  EXPECT_EQ(error(request("a chardev with far too long a name")), EINVAL);
}

TEST_F(DeviceCommands, system_is_exclusive_and_copies_on_fork) {
  const AttributeList list = answer(RequestBytes(RDMA_NLDEV_CMD_SYS_GET)).attributes();
  EXPECT_EQ(list.number(RDMA_NLDEV_SYS_ATTR_NETNS_MODE), 0u);
  EXPECT_EQ(list.number(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK), 1u);
}

TEST_F(DeviceCommands, system_cannot_become_shared) {
  const auto request = [] { return RequestBytes(RDMA_NLDEV_CMD_SYS_SET, NLM_F_ACK); };
  EXPECT_EQ(error(request().u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0)), 0);
  EXPECT_EQ(error(request().u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1)), EOPNOTSUPP);
  EXPECT_NE(explanation_, "");
  EXPECT_EQ(error(request().u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 2)), EINVAL);
  EXPECT_EQ(error(request()), EINVAL);
}

}  // namespace
}  // namespace uroce::netlink
