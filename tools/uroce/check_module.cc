// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "kmod-shim/uapi/uroce_channel.h"
#include "tools/uroce/check.h"
#include "tools/uroce/kernel_devices.h"

namespace uroce::cli {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

bool is_active(const std::vector<KernelDevice>& devices, const std::string& name) {
  for (const KernelDevice& device : devices) {
    if (device.name == name) return device.state == "4: ACTIVE";
  }
  return false;
}

// Whether a line of libibverbs' configuration names our provider, of this installation or another.
bool provider_is_named(const std::string& root) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + "/etc/libibverbs.d", none)) {
    std::ifstream file(entry.path());
    for (std::string line, word, stem; std::getline(file, line);) {
      std::istringstream words(line);
      if (words >> word >> stem && word == "driver" && fs::path(stem).filename() == "liburoce") return true;
    }
  }
  return false;
}

// The links that uroced serves.
Check links(const std::string& root, const json& served) {
  const std::vector<KernelDevice> devices = kernel_devices(root);
  std::string up, down;
  for (const json& link : served.value("links", json::array())) {
    if (!link.is_string()) continue;
    std::string& names = is_active(devices, link.get<std::string>()) ? up : down;
    names += (names.empty() ? "" : ", ") + link.get<std::string>();
  }
  if (up.empty() && down.empty()) {
    return {"kernel-module", Verdict::works, "the kernel module is served; it has no link here yet",
            "rdma link add ur0 type uroce netdev NETDEV"};
  }
  if (!down.empty()) {
    return {"kernel-module", Verdict::warning, "the kernel module is served, but not active: " + down,
            "its netdev must run: ip link set NETDEV up"};
  }
  return {"kernel-module", Verdict::works, "the kernel module is served, with its links: " + up, ""};
}

Check service(const std::string& root, const Installation& parts, const json* status) {
  const std::string start = parts.daemon + " --autostart";
  std::error_code none;
  if (status == nullptr && !fs::exists(root + "/dev/" UROCE_CHANNEL_NODE, none)) {
    return {"kernel-module", Verdict::problem,
            "the kernel module is loaded, but /dev/" UROCE_CHANNEL_NODE
            ", by which uroced serves it, is not here",
            "a container is given it: docker run --device /dev/" UROCE_CHANNEL_NODE " --cap-add NET_ADMIN"};
  }
  if (status == nullptr) {
    return {"kernel-module", Verdict::problem,
            "the kernel module is loaded, but no uroced serves it here: links on netdevs of this network "
            "namespace are down",
            "as root: " + start + " (where systemd runs: systemctl start uroced)"};
  }
  const auto served = status->find("kernel_module");
  if (served != status->end()) return links(root, *served);
  return {"kernel-module", Verdict::warning,
          "the kernel module is loaded, and the uroced that runs here does not serve it: `uroce log` says "
          "why",
          "as root: uroce stop; then " + start};
}

}  // namespace

bool module_is_loaded(const std::string& root) {
  std::error_code none;
  return fs::exists(root + "/sys/module/uroce", none);
}

void check_module(const std::string& root, const Installation& parts, const json* status,
                  std::vector<Check>& out) {
  if (!module_is_loaded(root)) return;
  out.push_back(service(root, parts, status));
  if (provider_is_named(root)) {
    out.push_back({"module-provider", Verdict::works, "libibverbs knows the provider by itself", ""});
  } else {
    out.push_back(
        {"module-provider", Verdict::problem,
         "no file in /etc/libibverbs.d names uroce's provider: programs do not find the kernel "
         "module's links",
         fmt::format("as root: echo 'driver {}' > /etc/libibverbs.d/uroce.driver", parts.provider)});
  }
}

}  // namespace uroce::cli
