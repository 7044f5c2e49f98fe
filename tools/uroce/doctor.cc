// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `uroce doctor`.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/uroce/check.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/status_text.h"

namespace uroce::cli {

namespace {

const char* mark_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::works: return "ok      ";
    case Verdict::note: return "note    ";
    case Verdict::warning: return "warning ";
    case Verdict::problem: return "PROBLEM ";
  }
  return "";
}

void print_for_a_person(const std::vector<Check>& checks, bool healthy) {
  for (const Check& check : checks) {
    std::printf("%s %s\n", mark_of(check.verdict), check.what.c_str());
    if (!check.todo.empty()) std::printf("         -> %s\n", check.todo.c_str());
  }
  std::printf(healthy ? "\nuroce works here.\n"
                      : "\nuroce does not work here as it should: see PROBLEM above.\n");
}

void print_json(const std::vector<Check>& checks, bool healthy) {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& check : checks) {
    nlohmann::json entry = {
        {"name", check.name}, {"verdict", verdict_name(check.verdict)}, {"what", check.what}};
    if (!check.todo.empty()) entry["todo"] = check.todo;
    list.push_back(std::move(entry));
  }
  std::puts(json_text({{"version", UROCE_VERSION}, {"healthy", healthy}, {"checks", list}}).c_str());
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::works: return "works";
    case Verdict::note: return "note";
    case Verdict::warning: return "warning";
    case Verdict::problem: return "problem";
  }
  return "";
}

int show_doctor(bool as_json, const std::string& program) {
  std::vector<Check> checks;
  check_kernel(checks);
  check_programs(program, checks);
  check_daemon(checks);
  const bool healthy = std::none_of(checks.begin(), checks.end(),
                                    [](const Check& c) { return c.verdict == Verdict::problem; });
  if (as_json) {
    print_json(checks, healthy);
  } else {
    print_for_a_person(checks, healthy);
  }
  return healthy ? 0 : kFailed;
}

}  // namespace uroce::cli
