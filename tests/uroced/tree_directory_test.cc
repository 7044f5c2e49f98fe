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
    plain = base + "/uroce-" + std::to_string(getuid()) + "-5";
  }
  ~TreeDirectory() override { fs::remove_all(base); }
  static unsigned mode(const std::string& path) {
    struct stat st {};
    return stat(path.c_str(), &st) == 0 ? st.st_mode & 0777 : 0;
  }
  std::string base, plain, why;
};

TEST_F(TreeDirectory, is_made_empty_and_closed_to_others) {
  fs::create_directories(plain);
  std::ofstream(plain + "/stale") << "";
  fs::permissions(plain, fs::perms(0777));
  const auto tree = make_tree_directory({base}, getuid(), 5, why);
  ASSERT_TRUE(tree) << why;
  EXPECT_EQ(*tree, plain);
  EXPECT_TRUE(fs::is_empty(*tree));
  EXPECT_EQ(mode(*tree), 0755u);
}

TEST_F(TreeDirectory, a_name_that_is_taken_stops_nobody) {
  fs::create_directory(base + "/target");
  std::ofstream(base + "/target/file") << "";
  fs::create_directory_symlink(base + "/target", plain);
  const auto tree = make_tree_directory({base}, getuid(), 5, why);
  ASSERT_TRUE(tree) << why;
  EXPECT_TRUE(tree->starts_with(plain + "-")) << *tree;
  EXPECT_TRUE(fs::is_empty(*tree));
  EXPECT_EQ(mode(*tree), 0755u);
  EXPECT_TRUE(fs::exists(base + "/target/file"));
  const auto another = make_tree_directory({base}, getuid(), 5, why);
  ASSERT_TRUE(another) << why;
  EXPECT_NE(*another, *tree);
}

TEST_F(TreeDirectory, other_peoples_directories_stay_theirs) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  fs::create_directory(plain);
  std::ofstream(plain + "/theirs") << "";
  ASSERT_EQ(chown(plain.c_str(), 65534, 65534), 0);
  fs::last_write_time(plain, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto tree = make_tree_directory({base}, getuid(), 5, why);
  ASSERT_TRUE(tree) << why;
  EXPECT_NE(*tree, plain);
  sweep_dead_trees({base}, getuid());
  EXPECT_TRUE(fs::exists(plain + "/theirs"));
}

TEST_F(TreeDirectory, only_dead_trees_are_swept) {
  const std::string mine = base + "/uroce-" + std::to_string(getuid()) + "-";
  const auto make = [&](const std::string& path, bool old) {
    fs::create_directories(path + "/sys");
    if (old) fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  make(mine + "1", true);
  make(mine + "1-aB3dEf", true);
  make(mine + "2", true);
  make(mine + "3", false);
  const std::string others[] = {base + "/other", mine + "notes", mine + "7.old", mine + "7-a", mine};
  for (const std::string& other : others) make(other, true);
  fs::create_directory_symlink(base + "/other", mine + "4");
  Fd lives = lock_tree(mine + "2");
  ASSERT_TRUE(lives);
  sweep_dead_trees({base, base + "/nowhere"}, getuid());
  EXPECT_FALSE(fs::exists(mine + "1"));
  EXPECT_FALSE(fs::exists(mine + "1-aB3dEf"));
  EXPECT_TRUE(fs::exists(mine + "2/sys"));
  EXPECT_TRUE(fs::exists(mine + "3/sys")) << "somebody may be making it";
  for (const std::string& other : others) EXPECT_TRUE(fs::exists(other + "/sys")) << other;
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
