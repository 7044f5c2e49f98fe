// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/tree_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace uroce::daemon {
namespace {

namespace fs = std::filesystem;

class TreeDirectory : public ::testing::Test {
 protected:
  TreeDirectory() {
    char path[] = "/tmp/uroced-place-XXXXXX";
    base = mkdtemp(path);
  }
  ~TreeDirectory() override { fs::remove_all(base); }
  std::string base, why;
};

TEST_F(TreeDirectory, is_made_empty_and_closed_to_others) {
  fs::create_directories(base + "/a/" + std::to_string(getuid()) + "-5");
  std::ofstream(base + "/a/" + std::to_string(getuid()) + "-5/stale") << "";
  fs::permissions(base + "/a", fs::perms(0777));
  const auto tree = make_tree_directory({base + "/a"}, getuid(), 5, why);
  ASSERT_TRUE(tree) << why;
  EXPECT_TRUE(fs::is_empty(*tree));
  struct stat st {};
  ASSERT_EQ(stat((base + "/a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0755u);
}

TEST_F(TreeDirectory, links_and_other_peoples_directories_are_passed_over) {
  fs::create_directory(base + "/target");
  fs::create_directory_symlink(base + "/target", base + "/link");
  const auto tree = make_tree_directory({base + "/link", base + "/good"}, getuid(), 5, why);
  ASSERT_TRUE(tree) << why;
  EXPECT_EQ(*tree, base + "/good/" + std::to_string(getuid()) + "-5");
  if (getuid() != 0) return;
  fs::create_directory(base + "/theirs");
  ASSERT_EQ(chown((base + "/theirs").c_str(), 65534, 65534), 0);
  EXPECT_FALSE(make_tree_directory({base + "/theirs"}, getuid(), 5, why));
  EXPECT_NE(why.find("65534"), std::string::npos) << why;
}

TEST_F(TreeDirectory, only_dead_trees_are_swept) {
  const std::string mine = base + "/" + std::to_string(getuid()) + "-";
  const auto make = [&](const std::string& path, bool old) {
    fs::create_directories(path + "/sys");
    if (old) fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  make(mine + "1", true);
  make(mine + "2", true);
  make(mine + "3", false);
  make(base + "/other", true);
  fs::create_directory_symlink(base + "/other", mine + "4");
  Fd lives = lock_tree(mine + "2");
  ASSERT_TRUE(lives);
  sweep_dead_trees({base, base + "/nowhere"}, getuid());
  EXPECT_FALSE(fs::exists(mine + "1"));
  EXPECT_TRUE(fs::exists(mine + "2/sys"));
  EXPECT_TRUE(fs::exists(mine + "3/sys")) << "somebody may be making it";
  EXPECT_TRUE(fs::exists(base + "/other/sys"));
  lives.reset();
  sweep_dead_trees({base}, getuid());
  EXPECT_FALSE(fs::exists(mine + "2"));
}

TEST_F(TreeDirectory, nowhere_says_why) {
  EXPECT_FALSE(make_tree_directory({base + "/no/such/parent"}, getuid(), 5, why));
  EXPECT_NE(why.find(base + "/no/such/parent"), std::string::npos) << why;
  EXPECT_FALSE(make_tree_directory({base + "/" + std::string(200, 'x')}, getuid(), 5, why));
}

}  // namespace
}  // namespace uroce::daemon
