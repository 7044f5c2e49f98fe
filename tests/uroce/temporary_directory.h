// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A directory for one test, which every user may enter.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace uroce::cli {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/uroce-test-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    chmod(name, 0755);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;

  std::string path(const std::string& relative = "") const {
    return path_ + (relative.empty() ? "" : "/" + relative);
  }

  void write(const std::string& relative, const std::string& text, mode_t mode = 0644) const {
    std::filesystem::create_directories(std::filesystem::path(path(relative)).parent_path());
    std::ofstream(path(relative)) << text;
    chmod(path(relative).c_str(), mode);
  }

  std::string read(const std::string& relative) const {
    std::ifstream file(path(relative));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  bool has(const std::string& relative) const { return std::filesystem::exists(path(relative)); }

 private:
  std::string path_;
};

}  // namespace uroce::cli
