// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// In a directory that stands for /.
#include "tools/uroce/activation.h"

#include "tests/uroce/temporary_directory.h"

namespace uroce::cli {
namespace {

constexpr const char* kPreload = "etc/ld.so.preload";
constexpr const char* kDriver = "etc/libibverbs.d/uroce.driver";

class Activation : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy_file(UROCE_STAND_IN, lib_.path("liburoce-preload.so"));
    lib_.write("liburoce-rdmav34.so", "");
    lib_.write("uroced", "");
    parts_ = {lib_.path("liburoce-preload.so"), lib_.path("liburoce"), lib_.path("uroced"), false};
  }

  std::string activate() { return activate_in(root_.path(), parts_); }
  std::string deactivate() { return deactivate_in(root_.path(), parts_); }

  TemporaryDirectory root_, lib_;
  Installation parts_;
};

TEST_F(Activation, writes_both_files_and_takes_them_back) {
  EXPECT_EQ(activate(), "");
  EXPECT_EQ(root_.read(kPreload), parts_.stand_in + "\n");
  EXPECT_EQ(root_.read(kDriver), "driver " + parts_.provider + "\n");
  EXPECT_TRUE(is_active_in(root_.path(), parts_));
  EXPECT_EQ(deactivate(), "");
  EXPECT_FALSE(root_.has(kPreload));
  EXPECT_FALSE(root_.has(kDriver));
  EXPECT_FALSE(is_active_in(root_.path(), parts_));
}

TEST_F(Activation, every_user_can_read_the_files) {
  const mode_t before = umask(077);
  EXPECT_EQ(activate(), "");
  umask(before);
  for (const char* file : {kPreload, kDriver}) {
    struct stat st {};
    ASSERT_EQ(stat(root_.path(file).c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0644u) << file;
  }
}

TEST_F(Activation, lines_of_others_stay_as_they_were) {
  root_.write(kPreload, "/lib/first.so /lib/second.so\n/lib/third.so");
  EXPECT_EQ(activate(), "");
  EXPECT_EQ(root_.read(kPreload), "/lib/first.so /lib/second.so\n/lib/third.so\n" + parts_.stand_in + "\n");
  EXPECT_EQ(deactivate(), "");
  EXPECT_EQ(root_.read(kPreload), "/lib/first.so /lib/second.so\n/lib/third.so\n");
}

TEST_F(Activation, taken_out_of_a_line_with_others) {
  root_.write(kPreload, "/lib/first.so:" + parts_.stand_in + " /lib/second.so\n");
  EXPECT_EQ(deactivate(), "");
  EXPECT_EQ(root_.read(kPreload), "/lib/first.so /lib/second.so\n");
}

TEST_F(Activation, twice_is_once) {
  EXPECT_EQ(activate(), "");
  EXPECT_EQ(activate(), "");
  EXPECT_EQ(root_.read(kPreload), parts_.stand_in + "\n");
  EXPECT_EQ(deactivate(), "");
  EXPECT_EQ(deactivate(), "");
}

TEST_F(Activation, leaves_no_other_files) {
  EXPECT_EQ(activate(), "");
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root_.path()))
    count += entry.is_regular_file();
  EXPECT_EQ(count, 2u);
}

TEST_F(Activation, library_that_cannot_be_loaded_is_refused) {
  lib_.write("liburoce-preload.so", "this is no library");
  EXPECT_NE(activate(), "");
  EXPECT_FALSE(root_.has(kPreload));
  EXPECT_FALSE(root_.has(kDriver));
}

TEST_F(Activation, library_that_others_cannot_read_is_refused) {
  chmod(lib_.path().c_str(), 0700);
  EXPECT_NE(activate().find("not every user may enter"), std::string::npos);
  chmod(lib_.path().c_str(), 0755);
  chmod(parts_.stand_in.c_str(), 0600);
  EXPECT_NE(activate().find("cannot be read by every user"), std::string::npos);
  EXPECT_FALSE(root_.has(kPreload));
}

TEST_F(Activation, missing_parts_are_refused) {
  std::filesystem::remove(lib_.path("uroced"));
  EXPECT_NE(activate().find("uroced is missing"), std::string::npos);
}

TEST_F(Activation, path_that_the_file_cannot_express_is_refused) {
  std::filesystem::create_directory(lib_.path("two words"));
  for (const char* file : {"liburoce-preload.so", "liburoce-rdmav34.so", "uroced"}) {
    std::filesystem::copy_file(lib_.path(file), lib_.path(std::string("two words/") + file));
  }
  parts_ = {lib_.path("two words/liburoce-preload.so"), lib_.path("two words/liburoce"),
            lib_.path("two words/uroced"), false};
  EXPECT_NE(activate(), "");
  EXPECT_FALSE(root_.has(kPreload));
}

TEST_F(Activation, directory_that_cannot_be_written_is_told) {
  root_.write("etc", "a file where a directory should be");
  EXPECT_NE(activate().find("cannot write"), std::string::npos);
}

}  // namespace
}  // namespace uroce::cli
