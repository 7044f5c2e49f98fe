// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/kernel_devices.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "tools/uroce/fd.h"

namespace uroce::cli {

namespace {

Fd open_really(int directory, const std::string& path, int flags) {
  return Fd(static_cast<int>(syscall(SYS_openat, directory, path.c_str(), flags | O_RDONLY | O_CLOEXEC)));
}

// Its first line; empty when it cannot be read.
std::string line_of(int directory, const std::string& path) {
  char text[256];
  const Fd fd = open_really(directory, path, 0);
  const long n = fd ? syscall(SYS_read, fd.get(), text, sizeof text) : 0;
  const std::string all(text, n > 0 ? static_cast<size_t>(n) : 0);
  return all.substr(0, all.find('\n'));
}

}  // namespace

std::vector<KernelDevice> kernel_devices(const std::string& root) {
  constexpr size_t kNameAt = offsetof(dirent64, d_name);
  const Fd directory = open_really(AT_FDCWD, root + "/sys/class/infiniband", O_DIRECTORY);
  std::vector<KernelDevice> all;
  alignas(dirent64) char buffer[4096];
  for (long n; directory && (n = syscall(SYS_getdents64, directory.get(), buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < n;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      const std::string name = reinterpret_cast<const char*>(entry) + kNameAt;
      if (name[0] == '.') continue;
      all.push_back({name, line_of(directory.get(), name + "/device/modalias") == "platform:uroce",
                     line_of(directory.get(), name + "/ports/1/state")});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

}  // namespace uroce::cli
