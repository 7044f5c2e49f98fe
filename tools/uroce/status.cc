// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the daemon tells and is told: `uroce status`, `uroce log`, `uroce link`.
#include "tools/uroce/status_text.h"

#include <cstdio>

#include "tools/uroce/commands.h"
#include "tools/uroce/daemon_line.h"
#include "tools/uroce/environment.h"
#include "tools/uroce/installation.h"

namespace uroce::cli {

using nlohmann::json;

namespace {

int told(const json& answer) {
  if (answer.value("ok", false)) return 0;
  complain(answer.value("error", "uroced has refused"));
  return kFailed;
}

// Complains when there is none.
std::unique_ptr<DaemonLine> running_daemon(int& exit_status) {
  DaemonLine::Failure failure;
  std::string why;
  auto line = DaemonLine::connect(failure, why);
  if (line == nullptr) {
    complain(why);
    exit_status = failure == DaemonLine::Failure::nobody ? kNotRunning : kFailed;
  }
  return line;
}

int ask_and_tell(const json& request) {
  int exit_status = 0;
  const auto line = running_daemon(exit_status);
  return line == nullptr ? exit_status : told(line->ask(request));
}

}  // namespace

int show_status(bool as_json) {
  DaemonLine::Failure failure;
  std::string why;
  const auto line = DaemonLine::connect(failure, why);
  if (line == nullptr) {
    if (as_json) {
      std::puts(json_text({{"running", false}, {"error", why}}).c_str());
    } else {
      complain(why);
    }
    return failure == DaemonLine::Failure::nobody ? kNotRunning : kFailed;
  }
  json status = line->status();
  const bool ok = status.value("ok", false);
  if (as_json) {
    status.erase("ok");
    status["running"] = true;
    std::puts(json_text(status).c_str());
    return ok ? 0 : kFailed;
  }
  if (!ok) return told(status);
  std::fputs(status_text(status).c_str(), stdout);
  return 0;
}

int show_log() {
  int exit_status = 0;
  const auto line = running_daemon(exit_status);
  if (line == nullptr) return exit_status;
  const json answer = line->ask({{"command", "log"}});
  for (const json& entry : answer.value("log", json::array())) {
    if (!entry.is_string()) continue;
    std::string text = entry.get<std::string>();
    if (text.empty() || text.back() != '\n') text += '\n';
    std::fputs(text.c_str(), stdout);
  }
  return told(answer);
}

int add_link(const std::string& device, const std::string& netdev) {
  std::string why;
  if (!start_daemon(chosen_daemon(installation()), why)) {
    complain(why);
    return kFailed;
  }
  return ask_and_tell({{"command", "link-add"}, {"device", device}, {"netdev", netdev}});
}

int delete_link(const std::string& device) {
  return ask_and_tell({{"command", "link-delete"}, {"device", device}});
}

int set_link(const std::string& device, const LinkSettings& settings) {
  json request = {{"command", "link-set"}, {"device", device}};
  if (settings.transport) request["transport"] = *settings.transport;
  if (settings.min_timeout_ms) request["min-timeout-ms"] = *settings.min_timeout_ms;
  return ask_and_tell(request);
}

}  // namespace uroce::cli
