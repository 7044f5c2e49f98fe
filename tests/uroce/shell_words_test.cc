// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/shell_words.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace uroce::cli {
namespace {

std::string what_a_shell_reads(const std::string& word) {
  FILE* shell = popen(("printf %s " + word).c_str(), "r");
  std::array<char, 256> buffer;
  const size_t n = fread(buffer.data(), 1, buffer.size(), shell);
  pclose(shell);
  return {buffer.data(), n};
}

TEST(ShellWords, shell_reads_back_what_was_quoted) {
  for (const std::string text : {"plain/path-1.so", "", "two words", "it's", "'", "''", "$HOME `id` \\ \"",
                                 "a\nb", "*?[x]", "~", "#x", "a;b&c|d"}) {
    EXPECT_EQ(what_a_shell_reads(quoted(text)), text);
  }
}

TEST(ShellWords, plain_text_stays_readable) {
  EXPECT_EQ(quoted("/usr/lib/uroce/liburoce-preload.so"), "/usr/lib/uroce/liburoce-preload.so");
}

TEST(ShellWords, one_command_per_change) {
  EXPECT_EQ(shell_commands({{"A", "x y"}, {"B", std::nullopt}}), "export A='x y'\nunset B\n");
}

}  // namespace
}  // namespace uroce::cli
