// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// `uroce run`, `uroce env`.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/uroce/commands.h"
#include "tools/uroce/daemon_line.h"
#include "tools/uroce/environment.h"
#include "tools/uroce/program_file.h"
#include "tools/uroce/shell_words.h"

namespace uroce::cli {

namespace {

constexpr int kCannotRun = 126, kNoSuchProgram = 127;

// Empty, or why nothing would work.
std::string unusable(const Installation& parts) {
  std::string why = what_is_missing(parts);
  return why.empty() ? unsuitable_paths(parts) : why;
}

}  // namespace

void complain(const std::string& sentence) {
  std::fprintf(stderr, "uroce: %s\n", sentence.c_str());
}

int run_command(const std::vector<std::string>& words) {
  const Installation& parts = installation();
  if (const std::string why = unusable(parts); !why.empty()) {
    complain(why);
    return kCannotRun;
  }
  if (const std::string warning = why_out_of_reach(words.front()); !warning.empty()) complain(warning);
  // Started here rather than from inside the program, which would hand it a child that it does not expect.
  // The program runs without a daemon too: it may not need any device.
  std::string why;
  if (!start_daemon(chosen_daemon(parts), why)) complain(why);

  for (const Change& change : entering(parts, own_variable))
    setenv(change.name.c_str(), change.value->c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  complain(fmt::format("cannot run {}: {}", words.front(), std::strerror(error)));
  return error == ENOENT ? kNoSuchProgram : kCannotRun;
}

int print_environment(bool unset) {
  const Installation& parts = installation();
  if (!unset) {
    if (const std::string why = unusable(parts); !why.empty()) {
      complain(why);
      return kFailed;
    }
  }
  std::fputs(shell_commands(unset ? leaving(parts, own_variable) : entering(parts, own_variable)).c_str(),
             stdout);
  return 0;
}

}  // namespace uroce::cli
