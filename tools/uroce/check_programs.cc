// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/uroce/activation.h"
#include "tools/uroce/check.h"
#include "tools/uroce/environment.h"
#include "tools/uroce/loader.h"
#include "tools/uroce/program_file.h"

namespace uroce::cli {

namespace {

Check files(const Installation& parts) {
  for (const std::string& why : {what_is_missing(parts), unsuitable_paths(parts)}) {
    if (!why.empty()) return {"files", Verdict::problem, why, ""};
  }
  return {"files", Verdict::works,
          fmt::format("version " UROCE_VERSION ", {}",
                      parts.is_build_tree ? "from the build tree" : "installed, " + parts.daemon),
          ""};
}

Check stand_in(const Installation& parts) {
  const std::string trouble = trouble_with_preload(parts.stand_in);
  if (trouble.empty())
    return {"stand-in", Verdict::works, "the dynamic linker loads the stand-in into programs", ""};
  return {"stand-in", Verdict::problem, "the stand-in cannot be loaded into /bin/true: " + trouble,
          "a C library other than glibc, or another machine or word size, cannot take it"};
}

Check verbs_library(const Installation& parts) {
  const VerbsLibrary library = look_at_verbs_library(parts.provider);
  if (!library.found) {
    return {"libibverbs", Verdict::warning, "libibverbs.so.1 is not there",
            "RDMA programs need it: apt install libibverbs1 ibverbs-utils"};
  }
  if (library.abi == 0) {
    return {"libibverbs", Verdict::problem,
            fmt::format("{} has an ABI for plugins that uroce does not know", library.file),
            "known are those of rdma-core 34 to 64"};
  }
  if (!library.plugin_trouble.empty()) {
    return {"libibverbs", Verdict::problem,
            fmt::format("{} wants {}-rdmav{}.so, and that does not load: {}", library.file, parts.provider,
                        library.abi, library.plugin_trouble),
            ""};
  }
  return {"libibverbs", Verdict::works,
          fmt::format("{} takes the plugin (ABI {})", library.file, library.abi), ""};
}

Check stock_programs() {
  std::string missing;
  for (const char* name : {"rdma", "ibv_devices"}) {
    if (!find_program(name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (missing.empty()) return {"programs", Verdict::works, "rdma and ibv_devices are there", ""};
  return {"programs", Verdict::note, "not found: " + missing,
          "apt install iproute2 ibverbs-utils; `uroce link` makes devices without `rdma`"};
}

Check this_environment(const Installation& parts) {
  const auto missing = entering(parts, own_variable);
  if (missing.empty())
    return {"environment", Verdict::works, "programs started from here see uroce devices", ""};
  if (missing.size() == 1 && missing[0].name == "UROCE_DAEMON") {
    return {"environment", Verdict::works, "programs started from here see uroce devices", ""};
  }
  if (module_is_loaded("")) {
    return {"environment", Verdict::works, "programs see the links of the kernel module as they are", ""};
  }
  return {"environment", Verdict::note,
          "programs started from this shell do not see uroce devices by themselves",
          "uroce run -- CMD, or eval \"$(uroce env)\" for the rest of this shell"};
}

Check system_activation(const Installation& parts) {
  std::ifstream file("/etc/ld.so.preload");
  std::ostringstream text;
  text << file.rdbuf();
  if (is_active_in("/", parts)) {
    return {"ld.so.preload", Verdict::note, "uroce is active for every program of this system",
            "to take it back: uroce deactivate --system"};
  }
  if (text.str().find("uroce") != std::string::npos) {
    return {"ld.so.preload", Verdict::warning, "/etc/ld.so.preload names another installation of uroce",
            "run `uroce deactivate --system` of that one, or edit the file"};
  }
  return {"ld.so.preload", Verdict::works, "uroce is not active for the whole system", ""};
}

Check sudo() {
  return {"sudo", Verdict::note, "sudo, su and setuid programs drop LD_PRELOAD",
          "sudo uroce run -- CMD rather than uroce run -- sudo CMD; statically linked programs cannot be "
          "served at all"};
}

}  // namespace

void check_programs(const std::string& program, std::vector<Check>& out) {
  const Installation& parts = installation();
  out.push_back(files(parts));
  if (out.back().verdict == Verdict::works) {
    out.push_back(stand_in(parts));
    out.push_back(verbs_library(parts));
  }
  out.push_back(stock_programs());
  out.push_back(this_environment(parts));
  out.push_back(system_activation(parts));
  out.push_back(sudo());
  if (program.empty()) return;
  const std::string why = why_out_of_reach(program);
  if (!find_program(program)) {
    out.push_back({"program", Verdict::problem, fmt::format("there is no program '{}'", program), ""});
  } else if (why.empty()) {
    out.push_back({"program", Verdict::works, fmt::format("{} can be served", program), ""});
  } else {
    out.push_back({"program", Verdict::problem, why, ""});
  }
}

}  // namespace uroce::cli
