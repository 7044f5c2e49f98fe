// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "tests/preload/fake_daemon.h"

namespace uroce::preload_test {
namespace {

constexpr const char* kGuid = "/sys/class/infiniband/ur0/node_guid";
constexpr const char* kGuidText = "0011:2233:4455:6677\n";

class Paths : public ::testing::Test {
 protected:
  FakeDaemon daemon_;
};

std::string text_of(int fd) {
  char buffer[256];
  const ssize_t n = fd < 0 ? -1 : read(fd, buffer, sizeof buffer);
  if (fd >= 0) close(fd);
  return n < 0 ? std::string("errno ") + std::strerror(errno) : std::string(buffer, static_cast<size_t>(n));
}

std::string read_link(const char* path) {
  char buffer[PATH_MAX];
  const ssize_t n = readlink(path, buffer, sizeof buffer);
  return n < 0 ? "" : std::string(buffer, static_cast<size_t>(n));
}

TEST_F(Paths, open__a_file_of_the_tree) {
  EXPECT_EQ(text_of(open(kGuid, O_RDONLY)), kGuidText);
  EXPECT_EQ(text_of(open64(kGuid, O_RDONLY)), kGuidText);
  EXPECT_EQ(text_of(openat(AT_FDCWD, kGuid, O_RDONLY)), kGuidText);
  EXPECT_EQ(text_of(openat64(AT_FDCWD, kGuid, O_RDONLY)), kGuidText);
}

TEST_F(Paths, open__spelled_unusually) {
  EXPECT_EQ(text_of(open("/sys//class/./infiniband/ur0//node_guid", O_RDONLY)), kGuidText);
  EXPECT_EQ(text_of(open("//sys/class/infiniband/ur0/../ur0/node_guid", O_RDONLY)), kGuidText)
      << "ur0 is a link, as in sysfs";
  EXPECT_EQ(text_of(open("/sys/class/infiniband/ur0/device/infiniband/ur0/node_guid", O_RDONLY)), kGuidText);
}

TEST_F(Paths, open__what_the_tree_has_not_is_the_hosts) {
  EXPECT_EQ(open("/sys/class/infiniband/none/node_guid", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(open("/dev/infiniband/uverbs7", O_RDWR), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(open("/sys/class/infiniband/new", O_RDWR | O_CREAT, 0644), -1) << "nothing is made in the tree";
  EXPECT_NE(access((daemon_.tree() + "/sys/class/infiniband/new").c_str(), F_OK), 0);
}

TEST_F(Paths, open__nobody_writes_to_an_attribute) {
  for (const int flags : {O_WRONLY, O_RDWR, O_WRONLY | O_CREAT | O_TRUNC, O_RDONLY | O_TRUNC}) {
    EXPECT_EQ(open(kGuid, flags, 0644), -1) << flags;
    EXPECT_EQ(errno, EACCES) << flags;
  }
  for (const char* mode : {"w", "a", "r+", "rb+"}) {
    EXPECT_EQ(std::fopen(kGuid, mode), nullptr) << mode;
    EXPECT_EQ(errno, EACCES) << mode;
  }
  EXPECT_EQ(creat(kGuid, 0644), -1);
  EXPECT_EQ(text_of(open(kGuid, O_RDONLY)), kGuidText);
}

TEST_F(Paths, open__other_paths_ask_nobody) {
  for (const char* path :
       {"/dev/null", "/sys/class/net", "/proc/self/status", "/dev/infinibandx", "/sys/class", "relative"}) {
    const int fd = open(path, O_RDONLY);
    if (fd >= 0) close(fd);
  }
  EXPECT_EQ(daemon_.hellos(UROCE_ROLE_WORLD), 0);
}

TEST_F(Paths, open__null_is_EFAULT) {
  int (*volatile function)(const char*, int, ...) = open;
  EXPECT_EQ(function(nullptr, O_RDONLY), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(Paths, fopen) {
  std::ifstream stream(kGuid);
  std::string line;
  EXPECT_TRUE(std::getline(stream, line));
  EXPECT_EQ(line + "\n", kGuidText);
  FILE* file = std::fopen(kGuid, "r");
  ASSERT_NE(file, nullptr);
  file = std::freopen("/sys/class/infiniband_verbs/uverbs0/ibdev", "r", file);
  ASSERT_NE(file, nullptr);
  char text[16] = {};
  EXPECT_EQ(std::fread(text, 1, sizeof text, file), 4u);
  EXPECT_STREQ(text, "ur0\n");
  std::fclose(file);
}

TEST_F(Paths, opendir__and_openat_below_it) {
  DIR* directory = opendir("/sys/class/infiniband");
  ASSERT_NE(directory, nullptr);
  std::set<std::string> names;
  while (const dirent* entry = readdir(directory)) names.insert(entry->d_name);
  EXPECT_EQ(names, (std::set<std::string>{".", "..", "host0", "ur0"}));
  EXPECT_EQ(text_of(openat(dirfd(directory), "ur0/node_guid", O_RDONLY)), kGuidText);
  closedir(directory);
}

TEST_F(Paths, chdir__relative_names_work) {
  ASSERT_EQ(chdir("/sys/class/infiniband"), 0);
  EXPECT_EQ(text_of(open("ur0/node_guid", O_RDONLY)), kGuidText);
  struct stat here, there;
  ASSERT_EQ(stat(".", &here), 0);
  ASSERT_EQ(stat("/sys/class/infiniband", &there), 0);
  EXPECT_EQ(here.st_ino, there.st_ino) << "what a shell compares to keep $PWD";
  ASSERT_EQ(chdir("/"), 0);
}

TEST_F(Paths, stat__device_nodes_look_like_devices) {
  struct stat st;
  for (const auto function : {stat, lstat}) {
    ASSERT_EQ(function("/dev/infiniband/uverbs0", &st), 0);
    EXPECT_TRUE(S_ISCHR(st.st_mode));
    EXPECT_EQ(st.st_mode & 0777, 0666u);
    EXPECT_EQ(st.st_rdev, makedev(231, 192));
    ASSERT_EQ(function("/dev/infiniband/rdma_cm", &st), 0);
    EXPECT_EQ(st.st_rdev, makedev(10, 58));
  }
  ASSERT_EQ(fstatat(AT_FDCWD, "/dev/infiniband/uverbs0", &st, 0), 0);
  EXPECT_EQ(st.st_rdev, makedev(231, 192));
  struct statx more;
  ASSERT_EQ(statx(AT_FDCWD, "/dev/infiniband/uverbs0", 0, STATX_BASIC_STATS, &more), 0);
  EXPECT_TRUE(S_ISCHR(more.stx_mode));
  EXPECT_EQ(makedev(more.stx_rdev_major, more.stx_rdev_minor), makedev(231, 192));
}

extern "C" int __xstat(int version, const char* path, struct stat* out);

TEST_F(Paths, xstat__of_programs_built_on_an_old_glibc) {
  struct stat st;
  ASSERT_EQ(__xstat(1, "/dev/infiniband/uverbs0", &st), 0);
  EXPECT_EQ(st.st_rdev, makedev(231, 192));
}

TEST_F(Paths, access_and_readlink) {
  EXPECT_EQ(access("/dev/infiniband/uverbs0", R_OK | W_OK), 0);
  EXPECT_EQ(faccessat(AT_FDCWD, kGuid, R_OK, 0), 0);
  EXPECT_EQ(euidaccess(kGuid, R_OK), 0);
  EXPECT_EQ(access("/sys/class/infiniband/none", F_OK), -1);
  EXPECT_EQ(read_link("/sys/class/infiniband/ur0"), "../../devices/platform/uroce.0/infiniband/ur0");
}

TEST_F(Paths, host_device__is_the_kernels_own) {
  EXPECT_EQ(read_link("/sys/class/infiniband/host0"), read_link("/sys/class/net/lo"));
  EXPECT_EQ(text_of(open("/sys/class/infiniband/host0/mtu", O_RDONLY)),
            text_of(open("/sys/class/net/lo/mtu", O_RDONLY)));
  char buffer[PATH_MAX];
  ASSERT_NE(realpath("/sys/class/infiniband/host0", buffer), nullptr);
  EXPECT_STREQ(buffer, "/sys/devices/virtual/net/lo");
}

TEST_F(Paths, realpath__answers_outside_the_tree) {
  char buffer[PATH_MAX];
  ASSERT_NE(realpath("/sys/class/infiniband/ur0", buffer), nullptr);
  EXPECT_STREQ(buffer, "/sys/devices/platform/uroce.0/infiniband/ur0");
  EXPECT_EQ(text_of(open("/sys/devices/platform/uroce.0/infiniband/ur0/node_guid", O_RDONLY)), kGuidText);
  char* allocated = canonicalize_file_name("/sys/class/infiniband/ur0/device");
  ASSERT_NE(allocated, nullptr);
  EXPECT_STREQ(allocated, "/sys/devices/platform/uroce.0");
  std::free(allocated);
  EXPECT_EQ(realpath("/sys/class/infiniband/none", buffer), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ASSERT_NE(realpath("/dev/../dev/null", buffer), nullptr);
  EXPECT_STREQ(buffer, "/dev/null");
}

TEST_F(Paths, glob__names_outside_the_tree) {
  glob_t found{};
  ASSERT_EQ(glob("/sys/class/infiniband/*/node_guid", 0, nullptr, &found), 0);
  ASSERT_EQ(found.gl_pathc, 1u);
  EXPECT_STREQ(found.gl_pathv[0], kGuid);
  ASSERT_EQ(glob("/dev/infiniband/uverbs*", GLOB_APPEND, nullptr, &found), 0);
  ASSERT_EQ(glob("/dev/nul?", GLOB_APPEND, nullptr, &found), 0);
  ASSERT_EQ(found.gl_pathc, 3u);
  EXPECT_STREQ(found.gl_pathv[0], kGuid);
  EXPECT_STREQ(found.gl_pathv[1], "/dev/infiniband/uverbs0");
  EXPECT_STREQ(found.gl_pathv[2], "/dev/null");
  globfree(&found);
  EXPECT_EQ(glob("/sys/class/infiniband/x*", 0, nullptr, &found), GLOB_NOMATCH);
  ASSERT_EQ(glob("/sys/class/infiniband/x*", GLOB_NOCHECK, nullptr, &found), 0);
  EXPECT_STREQ(found.gl_pathv[0], "/sys/class/infiniband/x*");
  globfree(&found);
}

TEST_F(Paths, scandir) {
  dirent** names = nullptr;
  const int count = scandir("/sys/class/infiniband_verbs", &names, nullptr, alphasort);
  ASSERT_EQ(count, 3);
  EXPECT_STREQ(names[2]->d_name, "uverbs0");
  for (int i = 0; i < count; ++i) std::free(names[i]);
  std::free(names);
}

std::set<std::string> walked;

TEST_F(Paths, nftw__names_outside_the_tree) {
  walked.clear();
  const auto visit = [](const char* name, const struct stat*, int, FTW* where) {
    walked.insert(std::string(name) + " " + (name + where->base));
    return 0;
  };
  ASSERT_EQ(nftw("/sys/devices/platform/uroce.0", visit, 8, FTW_PHYS), 0);
  EXPECT_EQ(walked.count("/sys/devices/platform/uroce.0/infiniband/ur0/node_guid node_guid"), 1u);
  EXPECT_EQ(walked.count("/sys/devices/platform/uroce.0 uroce.0"), 1u);
}

TEST_F(Paths, fts_open__reaches_the_tree) {
  char root[] = "/sys/class/infiniband_verbs/";
  char* roots[] = {root, nullptr};
  FTS* walk = fts_open(roots, FTS_PHYSICAL, nullptr);
  ASSERT_NE(walk, nullptr);
  std::set<std::string> names;
  while (const FTSENT* entry = fts_read(walk)) names.insert(entry->fts_name);
  EXPECT_EQ(names.count("uverbs0"), 1u);
  fts_close(walk);
}

TEST_F(Paths, inotify__sees_the_tree_change) {
  const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(fd, "/dev/infiniband", IN_CREATE), 0);
  std::ofstream(daemon_.tree() + "/dev/infiniband/uverbs1") << "";
  char buffer[512];
  EXPECT_GT(read(fd, buffer, sizeof buffer), 0);
  close(fd);
}

}  // namespace
}  // namespace uroce::preload_test
