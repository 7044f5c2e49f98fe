// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What programs do besides: they fork, and open files at numbers that were a device's.
#pragma once

#include <functional>
#include <string>

namespace uroce::preload_test {

// What `body` returns in a forked child, 0 to 255; -1: the child was killed.
int in_child(const std::function<int()>& body);
bool child_says(const std::function<bool()>& body);

// A regular file at the number `fd`, which must be free or may be replaced. Its name.
std::string make_file_at(int fd);
// Writes what looks like a command, and removes the file.
void expect_file_takes_writes(int fd, const std::string& name);

}  // namespace uroce::preload_test
