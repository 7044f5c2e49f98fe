// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace uroce::cli {

namespace {

// ASan insists on being the first library of a program; the stand-in only forwards calls, which does not
// disturb it.
constexpr const char* kAsanOption = "verify_asan_link_order=0";

// A list in a variable: any of `separators` between its items, the first one where we add.
struct ListVariable {
  const char* name;
  const char* separators;
  std::string item;
  bool in_front;
};

std::vector<ListVariable> list_variables(const Installation& parts) {
  return {{"LD_PRELOAD", ": ", parts.stand_in, true},
          {"RDMAV_DRIVERS", ":;", parts.provider, true},
          {"ASAN_OPTIONS", ": ,", kAsanOption, false}};
}

std::vector<std::string> items_of(const std::string& text, const char* separators) {
  std::vector<std::string> items;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at) items.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return items;
}

std::string joined(const std::vector<std::string>& items, char separator) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) text += separator;
    text += item;
  }
  return text;
}

}  // namespace

std::optional<std::string> own_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string chosen_daemon(const Installation& parts) {
  const std::string chosen = own_variable("UROCE_DAEMON").value_or("");
  return chosen.empty() ? parts.daemon : chosen;
}

std::vector<Change> entering(const Installation& parts, const GetVariable& now) {
  std::vector<Change> changes;
  for (const ListVariable& variable : list_variables(parts)) {
    const std::string old = now(variable.name).value_or("");
    const auto items = items_of(old, variable.separators);
    if (std::find(items.begin(), items.end(), variable.item) != items.end()) continue;
    const char separator = variable.separators[0];
    if (items.empty()) {
      changes.push_back({variable.name, variable.item});
    } else if (variable.in_front) {
      changes.push_back({variable.name, variable.item + separator + old});
    } else {
      changes.push_back({variable.name, old + separator + variable.item});
    }
  }
  if (now("UROCE_DAEMON").value_or("").empty()) changes.push_back({"UROCE_DAEMON", parts.daemon});
  return changes;
}

std::vector<Change> leaving(const Installation& parts, const GetVariable& now) {
  std::vector<Change> changes;
  for (const ListVariable& variable : list_variables(parts)) {
    const auto old = now(variable.name);
    if (!old) continue;
    auto items = items_of(*old, variable.separators);
    if (std::erase(items, variable.item) == 0) continue;
    if (items.empty()) {
      changes.push_back({variable.name, std::nullopt});
    } else {
      changes.push_back({variable.name, joined(items, variable.separators[0])});
    }
  }
  if (now("UROCE_DAEMON") == parts.daemon) changes.push_back({"UROCE_DAEMON", std::nullopt});
  return changes;
}

std::string unsuitable_paths(const Installation& parts) {
  for (const std::string& path : {parts.stand_in, parts.provider}) {
    if (path.find_first_of(" \t\n:;,") == std::string::npos) continue;
    return fmt::format(
        "'{}' has a space, ':', ';' or ',' in it, which LD_PRELOAD and RDMAV_DRIVERS cannot express; move "
        "uroce to another "
        "directory",
        path);
  }
  return {};
}

}  // namespace uroce::cli
