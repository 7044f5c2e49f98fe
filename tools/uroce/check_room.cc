// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What a link takes up: files that stand for /sys, the UDP port, descriptors. Tried rather than read, because
// what forbids it (a seccomp profile, a quota, a read-only mount) shows nowhere else.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "kmod-shim/uapi/uroce_abi.h"
#include "kmod-shim/uapi/uroce_daemon.h"
#include "tools/uroce/check.h"
#include "tools/uroce/fd.h"
#include "tools/uroced/tree_directory.h"

namespace uroce::cli {

namespace {

constexpr size_t kDeviceBytes = 1 << 20;    // more than the files of a device take
constexpr uint64_t kOtherDescriptors = 80;  // of uroced, that belong to no open device

// 0, or why the directory has no room for a device's files.
int try_to_fill(const std::string& directory) {
  std::string path = directory + "/.room-XXXXXX";
  const Fd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return errno;
  unlink(path.c_str());  // first: nothing stays if we are ended
  const std::string bytes(kDeviceBytes, 'x');
  const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
  return written < 0 ? errno : written < static_cast<ssize_t>(bytes.size()) ? ENOSPC : 0;
}

Check room_in(const std::string& directory) {
  if (const int error = try_to_fill(directory); error != 0) {
    return {"tree", Verdict::problem,
            fmt::format("{}, the directory that stands for /sys, does not take {} KiB: {}", directory,
                        kDeviceBytes / 1024, std::strerror(error)),
            "make room there, or set XDG_RUNTIME_DIR to a directory of your own before uroced starts"};
  }
  return {"tree", Verdict::works,
          fmt::format("there is room for the files that stand for /sys in {}", directory), ""};
}

}  // namespace

Check check_tree(const std::string& of_daemon) {
  if (!of_daemon.empty()) return room_in(of_daemon);
  std::string why;
  // As uroced makes it, but for a network namespace that does not exist.
  const auto made = daemon::make_tree_directory(daemon::tree_places(geteuid()), geteuid(), 0, why);
  if (!made) return {"tree", Verdict::problem, why, ""};
  Check check = room_in(*made);
  std::error_code ignored;
  std::filesystem::remove_all(*made, ignored);
  return check;
}

int try_to_bind(uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  const Fd fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd) {
    const int off = 0;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return bind(fd.get(), reinterpret_cast<const sockaddr*>(&six), sizeof six) == 0 ? 0 : errno;
  }
  const Fd only_four(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return only_four && bind(only_four.get(), reinterpret_cast<const sockaddr*>(&four), sizeof four) == 0
             ? 0
             : errno;
}

Check check_descriptors(uint64_t of_daemon) {
  uint64_t limit = of_daemon;
  if (limit == 0) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    limit = files.rlim_max;  // uroced raises its own to that
  }
  const uint64_t contexts =
      limit < kOtherDescriptors ? 0 : (limit - kOtherDescriptors) / UROCE_DAEMON_CONTEXT_FDS;
  if (contexts >= UROCE_SLOT_LAST) {
    return {
        "descriptors", Verdict::works,
        fmt::format("uroced may have {} descriptors, enough for all {} open devices", limit, UROCE_SLOT_LAST),
        ""};
  }
  return {
      "descriptors", contexts == 0 ? Verdict::problem : Verdict::warning,
      fmt::format("uroced may have {} descriptors (ulimit -Hn), enough for about {} open devices at a time",
                  limit, contexts),
      fmt::format("for all {}, start it where the limit is {} (limits.conf; docker --ulimit nofile=...)",
                  UROCE_SLOT_LAST, UROCE_SLOT_LAST * UROCE_DAEMON_CONTEXT_FDS + kOtherDescriptors)};
}

}  // namespace uroce::cli
