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
#include <string_view>

namespace uroce::daemon {

namespace {

constexpr size_t kLongestPath = 150;            // the hello reply has room for 192 bytes
constexpr std::string_view kSuffix = "XXXXXX";  // for mkdtemp()

bool in_memory(const std::string& place) {
  struct statfs fs;
  return statfs(place.c_str(), &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

std::string name_start(uid_t uid) {
  return fmt::format("uroce-{}-", uid);
}

// As make_tree_directory() names them; people may have directories of their own whose names begin alike.
bool is_tree_name(const std::string& name, uid_t uid) {
  const std::string start = name_start(uid);
  if (!name.starts_with(start)) return false;
  const size_t digits = name.find_first_not_of("0123456789", start.size());
  if (digits == std::string::npos) return name.size() > start.size();
  return digits > start.size() && name[digits] == '-' && name.size() == digits + 1 + kSuffix.size();
}

// Not by a symbolic link.
Fd open_own_directory(const std::string& path, uid_t uid, struct stat& st) {
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd && (fstat(fd.get(), &st) != 0 || st.st_uid != uid)) fd.reset();
  return fd;
}

// In places that all may write to, such as /tmp, anybody can have taken the plain name, and in a user
// namespace everybody is uid 0.
std::optional<std::string> make_tree(const std::string& plain, uid_t uid, std::string& trouble) {
  struct stat st {};
  if (open_own_directory(plain, uid, st)) {
    std::error_code error;
    std::filesystem::remove_all(plain, error);  // what a daemon that was killed has left
  }
  if (mkdir(plain.c_str(), 0755) == 0) return plain;
  if (errno == EEXIST) {
    std::string free = fmt::format("{}-{}", plain, kSuffix);
    if (mkdtemp(free.data()) != nullptr && chmod(free.c_str(), 0755) == 0) return free;
  }
  trouble += fmt::format("{}: {}; ", plain, std::strerror(errno));
  return std::nullopt;
}

}  // namespace

std::vector<std::string> tree_places(uid_t uid) {
  std::vector<std::string> places;
  if (uid == 0) places.push_back("/run");
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && runtime[0] == '/')
    places.push_back(runtime);
  places.push_back("/dev/shm");
  places.push_back("/tmp");
  return places;
}

std::optional<std::string> make_tree_directory(const std::vector<std::string>& places, uid_t uid,
                                               uint64_t namespace_inode, std::string& why) {
  std::string trouble;
  for (const bool memory : {true, false}) {
    for (const std::string& place : places) {
      if (in_memory(place) != memory) continue;
      const std::string plain = fmt::format("{}/{}{}", place, name_start(uid), namespace_inode);
      if (plain.size() > kLongestPath) {
        trouble += plain + ": the path is too long; ";
        continue;
      }
      if (auto tree = make_tree(plain, uid, trouble)) return tree;
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

void sweep_dead_trees(const std::vector<std::string>& places, uid_t uid) {
  constexpr time_t kBeingMade = 60;  // seconds
  for (const std::string& place : places) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(place, error)) {
      if (!is_tree_name(entry.path().filename(), uid)) continue;
      struct stat st {};
      const Fd fd = open_own_directory(entry.path(), uid, st);
      if (!fd || time(nullptr) - st.st_mtime < kBeingMade || flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
        continue;
      std::error_code ignored;
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace uroce::daemon
