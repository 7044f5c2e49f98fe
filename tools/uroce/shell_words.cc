// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/shell_words.h"

#include <fmt/format.h>

namespace uroce::cli {

std::string quoted(const std::string& text) {
  static constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%=";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string shell_commands(const std::vector<Change>& changes) {
  std::string out;
  for (const Change& change : changes) {
    out += change.value ? fmt::format("export {}={}\n", change.name, quoted(*change.value))
                        : fmt::format("unset {}\n", change.name);
  }
  return out;
}

}  // namespace uroce::cli
