// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Are two descriptors of this process copies of each other?
#pragma once

namespace uroce::verbs {

// Looks beneath the stand-in: there a command descriptor is a socket, which has an inode of its own for each
// open. With the module it is a node that all opens share, and only kcmp(2) can tell; where that is not
// allowed the answer is no.
bool same_open_file(int a, int b);

}  // namespace uroce::verbs
