// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which process this is. After fork() the child has our memory but neither our threads nor the right to our
// sockets.
#pragma once

namespace uroce::runtime {

// Call once before the first in_forked_child(); false when the kernel has no MADV_WIPEONFORK and
// pthread_atfork fails too.
bool watch_forks();

// One load. True in a process that was forked after watch_forks(), however it was forked (the page is wiped
// by the kernel).
bool in_forked_child();

}  // namespace uroce::runtime
