// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/uroce/check.h"
#include "tools/uroce/daemon_line.h"
#include "tools/uroce/installation.h"
#include "tools/uroce/processes.h"

namespace uroce::cli {

namespace {

using nlohmann::json;

constexpr uint16_t kRocePort = 4791;

// Sockets on the port that are not the daemon's and its clients'.
void check_port(bool daemon_has_port, std::vector<Check>& out) {
  const auto holders = udp_port_holders(kRocePort);
  const int error = holders.empty() ? try_to_bind(kRocePort) : 0;
  if (error != 0) {
    out.push_back({"port-4791", Verdict::problem,
                   fmt::format("UDP port 4791 cannot be had: {}", std::strerror(error)),
                   error == EADDRINUSE
                       ? "somebody whom this user cannot see holds it: use a network namespace of your own"
                       : "a security profile may forbid it"});
    return;
  }
  if (holders.empty()) {
    out.push_back({"port-4791", Verdict::works, "UDP port 4791 is free", ""});
    return;
  }
  const bool all_mine =
      std::all_of(holders.begin(), holders.end(), [](const auto& h) { return h.uid == geteuid(); });
  if (daemon_has_port && all_mine) {
    out.push_back({"port-4791", Verdict::works, "UDP port 4791 is uroced's", ""});
    return;
  }
  std::string who;
  for (const auto& holder : holders) {
    const std::string text = describe(holder);
    if (who.find(text) == std::string::npos) who += (who.empty() ? "" : ", ") + text;
  }
  out.push_back({"port-4791", Verdict::problem, "UDP port 4791 is held by " + who,
                 "RoCE needs that port: end the holder, or use a network namespace of your own. A kernel "
                 "device (rdma_rxe) holds it too"});
}

void check_devices(const json& status, std::vector<Check>& out) {
  const size_t count = status.value("devices", json::array()).size();
  if (status.contains("kernel_module")) {
    // The devices are the module's.
  } else if (count == 0) {
    out.push_back({"devices", Verdict::note, "there is no device in this network namespace yet",
                   "uroce run -- rdma link add ur0 type uroce netdev NETDEV"});
  } else {
    out.push_back({"devices", Verdict::works, fmt::format("{} device{}", count, count == 1 ? "" : "s"), ""});
  }
  for (const json& warning : status.value("warnings", json::array())) {
    if (warning.is_string())
      out.push_back({"daemon-warning", Verdict::warning, warning.get<std::string>(), ""});
  }
}

}  // namespace

void check_daemon(std::vector<Check>& out) {
  DaemonLine::Failure failure;
  std::string why;
  const auto line = DaemonLine::connect(failure, why);
  const json facts = line == nullptr ? json::object() : line->ask({{"command", "doctor-facts"}});
  check_port(facts.value("port_open", false), out);
  out.push_back(check_tree(facts.value("tree", "")));
  out.push_back(check_descriptors(facts.value("open_files_limit", uint64_t{0})));
  if (line == nullptr) {
    const bool only_absent = failure == DaemonLine::Failure::nobody;
    out.push_back({"daemon", only_absent ? Verdict::note : Verdict::problem, why, ""});
    check_module("", installation(), nullptr, out);
    return;
  }
  if (line->version() != UROCE_VERSION) {
    out.push_back(
        {"daemon", Verdict::warning,
         fmt::format("process {} is uroced {}, this is uroce " UROCE_VERSION, line->pid(), line->version()),
         "uroce stop; the next program starts the new one"});
  } else {
    out.push_back({"daemon", Verdict::works,
                   fmt::format("uroced {} runs as process {}", line->version(), line->pid()), ""});
  }
  const json status = line->status();
  check_devices(status, out);
  check_module("", installation(), &status, out);
}

}  // namespace uroce::cli
