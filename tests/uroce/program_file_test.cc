// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/program_file.h"

#include <elf.h>
#include <unistd.h>

#include <cstring>

#include "tests/uroce/temporary_directory.h"

namespace uroce::cli {
namespace {

class ProgramFile : public ::testing::Test {
 protected:
  // A program without an interpreter, as far as its headers go.
  std::string static_program(uint8_t word_size = ELFCLASS64) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = word_size;
#if defined(__x86_64__)
    header.e_machine = EM_X86_64;
#elif defined(__aarch64__)
    header.e_machine = EM_AARCH64;
#endif
    header.e_phentsize = sizeof(Elf64_Phdr);
    directory_.write("program", {reinterpret_cast<const char*>(&header), sizeof header}, 0755);
    return directory_.path("program");
  }

  TemporaryDirectory directory_;
};

TEST_F(ProgramFile, stock_programs_and_scripts_can_be_served) {
  EXPECT_EQ(why_out_of_reach("sh"), "");
  EXPECT_EQ(why_out_of_reach("/bin/true"), "");
  directory_.write("script", "#!/bin/sh\n", 0755);
  EXPECT_EQ(why_out_of_reach(directory_.path("script")), "");
}

TEST_F(ProgramFile, static_program_cannot) {
  EXPECT_NE(why_out_of_reach(static_program()).find("statically linked"), std::string::npos);
}

TEST_F(ProgramFile, neither_can_a_script_for_one) {
  directory_.write("script", "#! " + static_program() + " -x\n", 0755);
  EXPECT_NE(why_out_of_reach(directory_.path("script")).find("statically linked"), std::string::npos);
}

TEST_F(ProgramFile, nor_one_of_another_word_size) {
  EXPECT_NE(why_out_of_reach(static_program(ELFCLASS32)).find("word size"), std::string::npos);
}

TEST_F(ProgramFile, sudo_is_told_by_name) {
  directory_.write("sudo", "#!/bin/sh\n", 0755);
  EXPECT_NE(why_out_of_reach(directory_.path("sudo")).find("sudo"), std::string::npos);
}

TEST_F(ProgramFile, setuid_program_is_told) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  std::filesystem::copy_file("/bin/true", directory_.path("raised"));
  ASSERT_EQ(chown(directory_.path("raised").c_str(), 65534, 65534), 0);
  chmod(directory_.path("raised").c_str(), 04755);
  EXPECT_NE(why_out_of_reach(directory_.path("raised")).find("setuid"), std::string::npos);
}

TEST_F(ProgramFile, damaged_headers_are_no_problem) {
  directory_.write("torn",
                   "\x7f"
                   "ELF",
                   0755);
  EXPECT_EQ(why_out_of_reach(directory_.path("torn")), "");
  directory_.write("script", "#!", 0755);
  EXPECT_EQ(why_out_of_reach(directory_.path("script")), "");
}

TEST_F(ProgramFile, looks_where_execvp_looks) {
  EXPECT_EQ(find_program("no such program"), std::nullopt);
  EXPECT_EQ(find_program(directory_.path()), std::optional(directory_.path()))
      << "exec says what is wrong with it";
  const auto sh = find_program("sh");
  ASSERT_TRUE(sh);
  EXPECT_EQ(access(sh->c_str(), X_OK), 0);
}

}  // namespace
}  // namespace uroce::cli
