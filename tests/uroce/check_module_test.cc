// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// In a directory that stands for /.
#include "tests/uroce/temporary_directory.h"
#include "tools/uroce/check.h"
#include "tools/uroce/kernel_devices.h"

namespace uroce::cli {
namespace {

using nlohmann::json;

class Module : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root_.path("sys/module/uroce"));
    root_.write("dev/uroce", "");
    root_.write("etc/libibverbs.d/uroce.driver", "driver /somewhere/liburoce\n");
  }
  void device(const std::string& name, const std::string& modalias, const std::string& state) {
    root_.write("sys/class/infiniband/" + name + "/device/modalias", modalias + "\n");
    root_.write("sys/class/infiniband/" + name + "/ports/1/state", state + "\n");
  }
  // The verdict of the check with this name, and what is to be done.
  std::string told(const json* status, const std::string& name = "kernel-module") {
    std::vector<Check> checks;
    check_module(root_.path(), {"/lib/stand-in", "/lib/liburoce", "/lib/uroced", false}, status, checks);
    for (const Check& check : checks) {
      if (check.name == name)
        return std::string(verdict_name(check.verdict)) + ": " + check.what + " -> " + check.todo;
    }
    return "";
  }

  TemporaryDirectory root_;
};

TEST_F(Module, nothing_is_said_where_it_is_not_loaded) {
  std::filesystem::remove(root_.path("sys/module/uroce"));
  EXPECT_EQ(told(nullptr), "");
  EXPECT_EQ(told(nullptr, "module-provider"), "");
}

TEST_F(Module, without_a_daemon_the_command_is_named) {
  const std::string text = told(nullptr);
  EXPECT_EQ(text.rfind("problem: ", 0), 0U) << text;
  EXPECT_NE(text.find("as root: /lib/uroced --autostart"), std::string::npos) << text;
}

TEST_F(Module, a_container_without_the_node) {
  std::filesystem::remove(root_.path("dev/uroce"));
  EXPECT_NE(told(nullptr).find("--device /dev/uroce"), std::string::npos) << told(nullptr);
}

TEST_F(Module, a_daemon_that_does_not_serve_it) {
  const json status = {{"ok", true}};
  EXPECT_EQ(told(&status).rfind("warning: ", 0), 0U) << told(&status);
  EXPECT_NE(told(&status).find("uroce stop; then /lib/uroced --autostart"), std::string::npos);
}

TEST_F(Module, its_links) {
  json status = {{"kernel_module", {{"links", json::array()}}}};
  EXPECT_NE(told(&status).find("rdma link add"), std::string::npos) << told(&status);
  device("ur0", "platform:uroce", "4: ACTIVE");
  device("ur1", "platform:uroce", "1: DOWN");
  status["kernel_module"]["links"] = {"ur0"};
  EXPECT_EQ(told(&status), "works: the kernel module is served, with its links: ur0 -> ");
  status["kernel_module"]["links"] = {"ur0", "ur1"};
  EXPECT_EQ(told(&status).rfind("warning: the kernel module is served, but not active: ur1 ->", 0), 0U)
      << told(&status);
}

TEST_F(Module, libibverbs_must_know_the_provider) {
  EXPECT_EQ(told(nullptr, "module-provider").rfind("works: ", 0), 0U);
  root_.write("etc/libibverbs.d/uroce.driver", "# the provider of uroce\n\ndriver /elsewhere/liburoce\n");
  EXPECT_EQ(told(nullptr, "module-provider").rfind("works: ", 0), 0U);
  root_.write("etc/libibverbs.d/uroce.driver", "driver rxe\n# driver /lib/liburoce\n");
  EXPECT_EQ(told(nullptr, "module-provider").rfind("problem: ", 0), 0U);
  EXPECT_NE(told(nullptr, "module-provider").find("'driver /lib/liburoce'"), std::string::npos);
}

TEST_F(Module, kernel_devices_tell_its_links_from_others) {
  device("ur0", "platform:uroce", "4: ACTIVE");
  device("mlx", "pci:v000015B3", "1: DOWN");
  const auto devices = kernel_devices(root_.path());
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "mlx");
  EXPECT_FALSE(devices[0].of_module);
  EXPECT_EQ(devices[1].name, "ur0");
  EXPECT_TRUE(devices[1].of_module);
  EXPECT_EQ(devices[1].state, "4: ACTIVE");
}

}  // namespace
}  // namespace uroce::cli
