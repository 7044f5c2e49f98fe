// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tools/uroce/fd.h"

namespace uroce::cli {

namespace {

constexpr const char* kStockProgram = "/bin/true";
constexpr int kKnownAbis[] = {34, 57, 59, 64};

// Runs `body` in a child and returns what it writes to stdout and stderr.
std::string output_of_child(const std::function<void()>& body, int& status) {
  int ends[2];
  status = -1;
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  Fd read_end(ends[0]), write_end(ends[1]);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    body();
    _exit(0);
  }
  write_end.close_now();
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(read_end.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  if (child > 0) waitpid(child, &status, 0);
  return text;
}

void describe_verbs_library(const std::string& provider_stem) {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  Dl_info info{};
  dladdr(dlsym(library, "ibv_get_device_list"), &info);
  std::error_code error;
  std::printf("%s\n",
              std::filesystem::canonical(info.dli_fname == nullptr ? "" : info.dli_fname, error).c_str());
  int abi = 0;
  for (const int number : kKnownAbis) {
    if (dlsym(library, fmt::format("verbs_register_driver_{}", number).c_str()) != nullptr) abi = number;
  }
  std::printf("%d\n", abi);
  const std::string plugin = fmt::format("{}-rdmav{}.so", provider_stem, abi);
  if (abi != 0 && dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) std::printf("%s\n", dlerror());
  std::fflush(stdout);
}

}  // namespace

std::string trouble_with_preload(const std::string& library) {
  int status = 0;
  std::string said = output_of_child(
      [&] {
        setenv("LD_PRELOAD", library.c_str(), 1);
        setenv("LD_BIND_NOW", "1", 1);
        execl(kStockProgram, kStockProgram, static_cast<char*>(nullptr));
        _exit(127);
      },
      status);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (!said.empty()) return said;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return WIFSIGNALED(status) ? fmt::format("{} was killed by signal {}", kStockProgram, WTERMSIG(status))
                             : fmt::format("{} ended with status {}", kStockProgram, WEXITSTATUS(status));
}

VerbsLibrary look_at_verbs_library(const std::string& provider_stem) {
  int status = 0;
  const std::string said = output_of_child([&] { describe_verbs_library(provider_stem); }, status);
  VerbsLibrary found;
  const size_t first = said.find('\n'),
               second = first == std::string::npos ? first : said.find('\n', first + 1);
  if (second == std::string::npos) return found;
  found.found = true;
  found.file = said.substr(0, first);
  found.abi = std::atoi(said.c_str() + first + 1);
  found.plugin_trouble = said.substr(second + 1);
  while (!found.plugin_trouble.empty() && found.plugin_trouble.back() == '\n')
    found.plugin_trouble.pop_back();
  if (found.plugin_trouble.empty() && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
    found.plugin_trouble = "the plugin ends the program that loads it";
  }
  return found;
}

}  // namespace uroce::cli
