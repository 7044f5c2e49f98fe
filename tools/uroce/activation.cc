// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/activation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "tools/uroce/environment.h"
#include "tools/uroce/fd.h"
#include "tools/uroce/loader.h"

namespace uroce::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPreloadFile = "etc/ld.so.preload";
constexpr const char* kDriverFile = "etc/libibverbs.d/uroce.driver";

std::optional<std::string> contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; (at = text.find_first_not_of(" \t\n:", at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(" \t\n:", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

bool holds(const std::string& text, const std::string& word) {
  for (const std::string& found : words_of(text)) {
    if (found == word) return true;
  }
  return false;
}

// Readers see the old file or the new one, never a part: a torn ld.so.preload would hit every program.
std::string replace(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path fresh = file.string() + fmt::format(".uroce-{}", getpid());
  const Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const bool written = fd && fchmod(fd.get(), 0644) == 0 &&
                       write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(fd.get()) == 0;
  if (written && rename(fresh.c_str(), file.c_str()) == 0) return {};
  const std::string why = fmt::format("cannot write {}: {}", file.string(), std::strerror(errno));
  if (fd) unlink(fresh.c_str());
  return why;
}

std::string remove_or_tell(const fs::path& file) {
  if (unlink(file.c_str()) == 0 || errno == ENOENT) return {};
  return fmt::format("cannot remove {}: {}", file.string(), std::strerror(errno));
}

// Programs of every user will open it.
std::string unreadable_to_some(const fs::path& file) {
  struct stat st {};
  if (stat(file.c_str(), &st) != 0) return fmt::format("{} is missing", file.string());
  if ((st.st_mode & S_IROTH) == 0) return fmt::format("{} cannot be read by every user", file.string());
  for (fs::path directory = file.parent_path();; directory = directory.parent_path()) {
    if (stat(directory.c_str(), &st) != 0 || (st.st_mode & S_IXOTH) == 0) {
      return fmt::format(
          "{} is below {}, which not every user may enter; install uroce first (ninja install)",
          file.string(), directory.string());
    }
    if (directory == directory.root_path()) return {};
  }
}

}  // namespace

bool is_active_in(const std::string& root, const Installation& parts) {
  return holds(contents(fs::path(root) / kPreloadFile).value_or(""), parts.stand_in);
}

std::string activate_in(const std::string& root, const Installation& parts) {
  for (const std::string& why :
       {what_is_missing(parts), unsuitable_paths(parts), unreadable_to_some(parts.stand_in)}) {
    if (!why.empty()) return why;
  }
  if (const std::string trouble = trouble_with_preload(parts.stand_in); !trouble.empty()) {
    return fmt::format("a test program did not accept {}: {}", parts.stand_in, trouble);
  }
  const fs::path driver = fs::path(root) / kDriverFile, preload = fs::path(root) / kPreloadFile;
  const std::string line = fmt::format("driver {}\n", parts.provider);
  if (const std::string why = replace(driver, line); !why.empty()) return why;
  std::string text = contents(preload).value_or("");
  if (holds(text, parts.stand_in)) return {};
  if (!text.empty() && text.back() != '\n') text += '\n';
  const std::string why = replace(preload, text + parts.stand_in + "\n");
  if (!why.empty()) remove_or_tell(driver);
  return why;
}

std::string deactivate_in(const std::string& root, const Installation& parts) {
  const fs::path driver = fs::path(root) / kDriverFile, preload = fs::path(root) / kPreloadFile;
  if (const auto text = contents(preload); text && holds(*text, parts.stand_in)) {
    // Line by line, so that the lines of others stay as they were written.
    std::istringstream lines(*text);
    std::string rest;
    for (std::string line; std::getline(lines, line);) {
      if (!holds(line, parts.stand_in)) {
        rest += line + "\n";
        continue;
      }
      std::string others;
      for (const std::string& word : words_of(line)) {
        if (word != parts.stand_in) others += (others.empty() ? "" : " ") + word;
      }
      if (!others.empty()) rest += others + "\n";
    }
    const std::string why = rest.empty() ? remove_or_tell(preload) : replace(preload, rest);
    if (!why.empty()) return why;
  }
  return remove_or_tell(driver);
}

}  // namespace uroce::cli
