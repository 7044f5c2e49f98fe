// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which process this is. After fork() the child has our memory but neither our threads nor the right to our
// sockets; what it opens itself is its own.
#pragma once

#include <cstdint>

namespace uroce::runtime {

// The number of this process: every process in a line of forks has another one, however it was forked (the
// kernel wipes the page that holds it). 0 when the kernel has no MADV_WIPEONFORK and pthread_atfork fails
// too.
uint32_t process_generation();

// One load. False in a process that was forked since `generation` was asked for.
bool is_generation(uint32_t generation);

}  // namespace uroce::runtime
