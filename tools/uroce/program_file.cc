// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/program_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace uroce::cli {

namespace {

constexpr uint16_t kOwnMachine =
#if defined(__x86_64__)
    EM_X86_64;
#elif defined(__aarch64__)
    EM_AARCH64;
#else
    EM_NONE;
#endif

enum class Linkage { dynamic, fixed, foreign, unknown };

// Programs of other word sizes and machines are looked at no further.
Linkage linkage_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return Linkage::unknown;
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Linkage::foreign;
  if (kOwnMachine != EM_NONE && header.e_machine != kOwnMachine) return Linkage::foreign;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return Linkage::unknown;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return Linkage::unknown;
    if (segment.p_type == PT_INTERP) return Linkage::dynamic;
  }
  return Linkage::fixed;
}

// The program behind "#!"; empty when there is none.
std::string interpreter_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.rfind("#!", 0) != 0) return {};
  std::istringstream words(line.substr(2));
  std::string interpreter;
  words >> interpreter;
  return interpreter;
}

bool raises_privileges(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return false;
  const bool changes_user = (st.st_mode & S_ISUID) != 0 && st.st_uid != geteuid();
  const bool changes_group = (st.st_mode & S_ISGID) != 0 && st.st_gid != getegid();
  // To root, file capabilities add nothing, and the dynamic linker stays as it is.
  const bool gains = geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return changes_user || changes_group || gains;
}

}  // namespace

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string file = (directory.empty() ? "." : directory) + "/" + name;
    struct stat st {};
    if (access(file.c_str(), X_OK) == 0 && stat(file.c_str(), &st) == 0 && S_ISREG(st.st_mode)) return file;
  }
  return std::nullopt;
}

std::string why_out_of_reach(const std::string& name) {
  const std::string base = std::filesystem::path(name).filename();
  const auto found = find_program(name);
  if (!found) return {};
  if (base == "sudo" || base == "su" || base == "doas" || base == "pkexec") {
    return fmt::format(
        "{} starts programs with an environment of its own, so they will not see uroce devices; write `{} "
        "... uroce run -- CMD` "
        "instead, or use `uroce activate --system`",
        base, base);
  }
  const std::string interpreter = interpreter_of(*found);
  const std::string& program = interpreter.empty() ? *found : interpreter;
  if (raises_privileges(program)) {
    return fmt::format(
        "{} is setuid, setgid or has file capabilities: the dynamic linker ignores LD_PRELOAD for it. Run it "
        "as the user it "
        "becomes, or use `uroce activate --system`",
        program);
  }
  switch (linkage_of(program)) {
    case Linkage::fixed:
      return fmt::format(
          "{} is statically linked: nothing can be loaded into it, so it will not see uroce devices",
          program);
    case Linkage::foreign:
      return fmt::format("{} is a program for another machine or word size; uroce cannot be loaded into it",
                         program);
    case Linkage::dynamic:
    case Linkage::unknown: break;
  }
  return {};
}

}  // namespace uroce::cli
