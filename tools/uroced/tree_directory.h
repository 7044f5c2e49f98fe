// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The directory that stands for /sys and /dev/infiniband: a real one, because shells change into it and
// libraries open paths relative to it. In memory (tmpfs) where possible, and never one that somebody else has
// prepared.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/uroced/fd.h"

namespace uroce::daemon {

// Where to try, best first.
std::vector<std::string> tree_places(uid_t uid);

// Makes `<place>/uroce-<uid>-<namespace>` empty, with mode 0755, owned by us; with a random end to the name
// where somebody else has that one. The first place that allows it, those in memory before those on disk.
// nullopt with `why`, which names what is wrong with each.
std::optional<std::string> make_tree_directory(const std::vector<std::string>& places, uid_t uid,
                                               uint64_t namespace_inode, std::string& why);

// Marks the tree as one that lives, for as long as the descriptor or a duplicate is open.
Fd lock_tree(const std::string& tree);
// Removes trees of daemons that were killed: those of `uid` that nobody has locked and that are not just
// being made.
void sweep_dead_trees(const std::vector<std::string>& places, uid_t uid);

}  // namespace uroce::daemon
