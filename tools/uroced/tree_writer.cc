// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/tree_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace uroce::daemon {

namespace fs = std::filesystem;

namespace {

constexpr mode_t kFileMode = 0644;

bool write_all(int fd, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = pwrite(fd, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

TreeWriter::TreeWriter(std::string root)
    : root_(std::move(root)), root_fd_(open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
  if (!root_fd_) failed("open", root_);
}

void TreeWriter::failed(const std::string& what, const std::string& path) {
  if (failure_.error != 0) return;
  const int error = errno;
  failure_ = {error, fmt::format("cannot {} {}: {}", what, path, std::strerror(error))};
}

void TreeWriter::directory(const std::string& path) {
  for (size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdirat(root_fd_.get(), part.c_str(), 0755) != 0 && errno != EEXIST) return failed("make", part);
    if (slash == std::string::npos) return;
  }
}

void TreeWriter::file(const std::string& path, const std::string& text, Replace replace) {
  const auto known = texts_.find(path);
  if (known != texts_.end() && known->second == text) return;
  // A worker that was restarted finds the files of its predecessor and knows none of them.
  const bool exists = faccessat(root_fd_.get(), path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  const bool same_length = known != texts_.end() && known->second.size() == text.size();
  bool ok;
  if (exists && (same_length || replace == Replace::in_place)) {
    const Fd fd(openat(root_fd_.get(), path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    ok = fd && write_all(fd.get(), text) &&
         (same_length || ftruncate(fd.get(), static_cast<off_t>(text.size())) == 0);
  } else if (!exists) {
    const Fd fd(openat(root_fd_.get(), path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    ok = fd && write_all(fd.get(), text);
  } else {
    const std::string fresh = ".new";
    unlinkat(root_fd_.get(), fresh.c_str(), 0);
    const Fd fd(openat(root_fd_.get(), fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    ok = fd && write_all(fd.get(), text) &&
         renameat(root_fd_.get(), fresh.c_str(), root_fd_.get(), path.c_str()) == 0;
  }
  if (ok) {
    texts_[path] = text;
  } else {
    failed("write", path);
    texts_.erase(path);
  }
}

void TreeWriter::link(const std::string& path, const std::string& target) {
  char present[512];
  const ssize_t n = readlinkat(root_fd_.get(), path.c_str(), present, sizeof present);
  if (n >= 0 && std::string(present, static_cast<size_t>(n)) == target) return;
  if (n >= 0) unlinkat(root_fd_.get(), path.c_str(), 0);
  if (symlinkat(target.c_str(), root_fd_.get(), path.c_str()) != 0) failed("link", path);
}

void TreeWriter::rename(const std::string& from, const std::string& to) {
  if (renameat(root_fd_.get(), from.c_str(), root_fd_.get(), to.c_str()) != 0) failed("rename", from);
  std::erase_if(
      texts_, [&](const auto& entry) { return entry.first == from || entry.first.starts_with(from + "/"); });
}

void TreeWriter::remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(fs::path(root_) / path, error);
  if (error) {
    errno = error.value();
    failed("remove", path);
  }
  std::erase_if(
      texts_, [&](const auto& entry) { return entry.first == path || entry.first.starts_with(path + "/"); });
}

}  // namespace uroce::daemon
