// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Writes files, directories and symbolic links below one directory of ours, only where something differs.
// Goes on after an error, of which the first is kept: a full tmpfs must not stop the daemon.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>

#include "tools/uroced/fd.h"

namespace uroce::daemon {

class TreeWriter {
 public:
  // How a reader is kept from seeing half of a new text.
  enum class Replace {
    by_rename,  // a new file takes the old one's place
    in_place,   // the directory's own time stamp must not change: libibverbs tells devices apart by it
  };

  struct Failure {
    int error = 0;  // errno, 0: none
    std::string text;
  };

  explicit TreeWriter(std::string root);

  const std::string& root() const { return root_; }
  void directory(const std::string& path);  // with its parents
  void file(const std::string& path, const std::string& text, Replace replace = Replace::by_rename);
  void link(const std::string& path, const std::string& target);
  void rename(const std::string& from, const std::string& to);  // a file or a whole directory
  void remove(const std::string& path);                         // with everything below

  // The first since the last call.
  Failure take_failure() { return std::exchange(failure_, {}); }

 private:
  void failed(const std::string& what, const std::string& path);

  std::string root_;
  Fd root_fd_;
  std::unordered_map<std::string, std::string> texts_;  // as last written
  Failure failure_;
};

}  // namespace uroce::daemon
