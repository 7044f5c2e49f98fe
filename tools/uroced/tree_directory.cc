// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/tree_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace uroce::daemon {

namespace {

constexpr size_t kLongestPath = 150;  // the hello reply has room for 192 bytes

bool in_memory(const std::string& path) {
  struct statfs fs;
  const std::string parent = std::filesystem::path(path).parent_path();
  return statfs(parent.c_str(), &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

// A directory that is ours alone to write, made if it is not there.
bool own_directory(const std::string& path, uid_t uid, std::string& why) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    why += fmt::format("{}: {}; ", path, std::strerror(errno));
    return false;
  }
  const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0) {
    why += fmt::format("{}: {}; ", path, std::strerror(errno));
    return false;
  }
  if (st.st_uid != uid) {
    why += fmt::format("{}: belongs to uid {}, not to uid {}; ", path, st.st_uid, uid);
    return false;
  }
  if ((st.st_mode & 022) != 0 && fchmod(fd.get(), 0755) != 0) {
    why += fmt::format("{}: others may write to it; ", path);
    return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> tree_candidates(uid_t uid) {
  std::vector<std::string> candidates;
  if (uid == 0) candidates.push_back("/run/uroce");
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && runtime[0] == '/') {
    candidates.push_back(std::string(runtime) + "/uroce");
  }
  candidates.push_back(fmt::format("/dev/shm/uroce-{}", uid));
  candidates.push_back(fmt::format("/tmp/uroce-{}", uid));
  return candidates;
}

std::optional<std::string> make_tree_directory(const std::vector<std::string>& candidates, uid_t uid,
                                               uint64_t namespace_inode, std::string& why) {
  std::string trouble;
  for (const bool memory : {true, false}) {
    for (const std::string& candidate : candidates) {
      if (in_memory(candidate) != memory) continue;
      if (candidate.size() > kLongestPath) {
        trouble += candidate + ": the path is too long; ";
        continue;
      }
      if (!own_directory(candidate, uid, trouble)) continue;
      const std::string tree = fmt::format("{}/{}-{}", candidate, uid, namespace_inode);
      std::error_code error;
      std::filesystem::remove_all(tree, error);  // what a daemon that was killed has left
      if (own_directory(tree, uid, trouble)) return tree;
    }
  }
  why = "no place for the directory that stands for /sys: " + trouble +
        "set XDG_RUNTIME_DIR to a directory of your own";
  return std::nullopt;
}

Fd lock_tree(const std::string& tree) {
  Fd fd(open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd && flock(fd.get(), LOCK_SH | LOCK_NB) != 0) fd.reset();
  return fd;
}

void sweep_dead_trees(const std::vector<std::string>& candidates, uid_t uid) {
  constexpr time_t kBeingMade = 60;  // seconds
  const std::string prefix = fmt::format("{}-", uid);
  for (const std::string& candidate : candidates) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(candidate, error)) {
      if (!entry.path().filename().string().starts_with(prefix)) continue;
      const Fd fd(open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      struct stat st {};
      if (!fd || fstat(fd.get(), &st) != 0 || st.st_uid != uid) continue;
      if (time(nullptr) - st.st_mtime < kBeingMade || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
      std::error_code ignored;
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace uroce::daemon
