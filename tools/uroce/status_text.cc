// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/status_text.h"

#include <fmt/format.h>

namespace uroce::cli {

using nlohmann::json;

namespace {

// Those that are not 0.
std::string counters_text(const json& values) {
  std::string out;
  for (const auto& [name, value] : values.items()) {
    if (value.is_number_integer() && value.get<uint64_t>() != 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, value.get<uint64_t>());
  }
  return out;
}

std::string device_text(const json& device) {
  std::string out =
      fmt::format("\n{}: {} on {}, {}, active MTU {}, {}, transport {}\n", device.value("name", "?"),
                  device.value("state", "?"), device.value("netdev", "?"), device.value("rate", "?"),
                  device.value("active_mtu", 0), device.value("uverbs", "?"), device.value("transport", "?"));
  for (const json& gid : device.value("gids", json::array())) {
    out += fmt::format("  GID {:<3} {}  {} ({})\n", gid.value("index", 0), gid.value("gid", "?"),
                       gid.value("address", "?"), gid.value("netdev", "?"));
  }
  const std::string counters = counters_text(device.value("counters", json::object()));
  if (!counters.empty()) out += "  " + counters + "\n";
  return out;
}

std::string context_text(const json& context) {
  const json counts = context.value("objects", json::object());
  std::string objects;
  for (const auto& [kind, count] : counts.items()) {
    if (count.is_number() && count.get<int64_t>() != 0) {
      objects += fmt::format("{}{} {}", objects.empty() ? "" : ", ", count.get<int64_t>(), kind);
    }
  }
  return fmt::format("  {} (process {}) uses {}{} for {}: {}\n", context.value("command", "?"),
                     context.value("pid", 0), context.value("device", "?"),
                     context.value("device_gone", false) ? ", which is gone," : "",
                     duration_text(context.value("age_s", uint64_t{0})),
                     objects.empty() ? "nothing open" : objects) +
         (context.value("transport", "").empty() ? ""
                                                 : fmt::format("    {}\n", context.value("transport", "")));
}

}  // namespace

std::string duration_text(uint64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 86400) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86400, seconds / 3600 % 24);
}

std::string status_text(const json& status) {
  std::string out = fmt::format("uroced {}, process {}, up {}, uid {}, network namespace {}\n",
                                status.value("version", "?"), status.value("pid", 0),
                                duration_text(status.value("uptime_s", uint64_t{0})), status.value("uid", 0u),
                                status.value("netns", uint64_t{0}));
  const json devices = status.value("devices", json::array());
  if (devices.empty()) {
    out += "no devices; make one: uroce run -- rdma link add ur0 type uroce netdev NETDEV\n";
  }
  for (const json& device : devices) out += device_text(device);
  const json contexts = status.value("contexts", json::array());
  if (!contexts.empty()) out += "\nprograms:\n";
  for (const json& context : contexts) out += context_text(context);
  const std::string manager = counters_text(status.value("connection_manager", json::object()));
  if (!manager.empty()) out += "\nconnection manager: " + manager + "\n";
  const json warnings = status.value("warnings", json::array());
  if (!warnings.empty()) out += "\n";
  for (const json& warning : warnings) {
    if (warning.is_string()) out += "warning: " + warning.get<std::string>() + "\n";
  }
  return out;
}

std::string json_text(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace uroce::cli
