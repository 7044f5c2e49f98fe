// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/installation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

namespace uroce::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kStandIn = "liburoce-preload.so";

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none);
}

Installation find() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path top = self.parent_path() / ".." / "..";
  Installation parts;
  parts.is_build_tree =
      !error && is_there(top / "kmod-shim" / "preload") && is_there(top / "tools" / "uroced");
  if (parts.is_build_tree) {
    const fs::path clean = top.lexically_normal();
    parts.stand_in = clean / "kmod-shim" / "preload" / kStandIn;
    parts.provider = clean / "provider" / "verbs" / "liburoce";
    parts.daemon = clean / "tools" / "uroced" / "uroced";
  } else {
    const fs::path directory = (self.parent_path() / UROCE_LIBDIR_FROM_BINDIR).lexically_normal();
    parts.stand_in = directory / kStandIn;
    parts.provider = directory / "liburoce";
    parts.daemon = directory / "uroced";
  }
  return parts;
}

}  // namespace

const Installation& installation() {
  static const Installation parts = find();
  return parts;
}

std::string what_is_missing(const Installation& parts) {
  for (const std::string& file : {parts.stand_in, parts.provider + "-rdmav34.so", parts.daemon}) {
    if (!is_there(file)) {
      return fmt::format("{} is missing; {}", file,
                         parts.is_build_tree ? "build it: ninja" : "install uroce again");
    }
  }
  return {};
}

}  // namespace uroce::cli
