// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

namespace uroce::preload_test {

// What `uroced --autostart` does, for the tests of the autostart: goes to the background, listens, and leaves
// with the process that the environment names. The exit status of the process that was started.
int run_as_autostarted_daemon();

}  // namespace uroce::preload_test
